import type { Log } from '../../../base/log.ts'
import type { WorkerEnd, WorkerMetrics } from '../../../store/store-metrics.ts'
import type { WorkerCounts } from '../../protocol/protocol.ts'
import { operationShape } from '../dispatch/operation-shape.ts'
import type { LostWorker } from '../processes/worker-slot.ts'

/** What all workers of a node have done, those that have ended too, and why workers ended before they were told to. */
export class WorkerTotals {
  readonly #log: Log
  readonly #byReason = new Map<WorkerEnd, number>()
  #statements = 0
  #commits = 0

  constructor(log: Log) {
    this.#log = log
  }

  get byReason(): WorkerMetrics['ended'] {
    return [...this.#byReason].map(([reason, count]) => ({ reason, count }))
  }

  /** The worker's counts go on counting, however it ended. */
  keep({ statements, commits }: WorkerCounts): void {
    this.#statements += statements
    this.#commits += commits
  }

  /** Says which statement it was, without its values. */
  lost({ worker, reason, statement, commit, task }: LostWorker): void {
    const end = reason ?? (worker.ranOutOfMemory ? 'memory' : 'exited')
    this.#byReason.set(end, (this.#byReason.get(end) ?? 0) + 1)
    const culprit = statement ?? commit
    this.#log.warn(
      {
        worker: worker.identity.pid,
        reason: end,
        cellId: (culprit ?? task)?.cellId,
        accountId: (culprit ?? task)?.accountId,
        requestId: culprit?.requestId,
        statement: culprit && operationShape(culprit.operation),
      },
      'a worker has ended; a new one takes its place',
    )
  }

  /** Those of all workers. @param alive of the workers that have not ended */
  total(alive: readonly WorkerCounts[]): WorkerCounts {
    const total = { statements: this.#statements, commits: this.#commits, cellsOpen: 0 }
    for (const { statements, commits, cellsOpen } of alive) {
      total.statements += statements
      total.commits += commits
      total.cellsOpen += cellsOpen
    }
    return total
  }
}
