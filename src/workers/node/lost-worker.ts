import type { ProvisionalResults } from './batch.ts'
import type { QueuedOperation } from './queued-operation.ts'
import type { Charged } from './running-work.ts'
import type { WorkerHandle } from './worker-process.ts'

/** Why a node kills a worker. */
export type KillReason = 'timeout' | 'held-up' | 'abandoned' | 'log' | 'memory' | 'silent'

/** The open work of a worker that has ended. */
export interface LostWorker {
  worker: WorkerHandle
  /** Undefined if the node did not kill it. */
  reason: KillReason | undefined
  /** The statement that was running at the end, if any. */
  statement: QueuedOperation | undefined
  /** The cell whose task was running at the end, if any, or that was being closed. */
  task: Charged | undefined
  /** The operation whose COMMIT was running at the end, if any: the WAL decides what happens to it. */
  commit: QueuedOperation | undefined
  /** Their transactions may have been committed. */
  provisional: ProvisionalResults[]
  /** Must run again. Includes `statement`'s operation. */
  notRun: QueuedOperation[]
}
