import type { CollectedLogs } from '../../../src/backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../../src/backup/changes/log/packed-logs.ts'
import type { CellRecord } from '../../../src/catalog/cell-registry.ts'
import { NO_WAL } from '../../../src/engine/wal/wal-end.ts'
import {
  WorkerEnded,
  type WorkerHandle,
  type WorkMessage,
} from '../../../src/workers/node/processes/worker-process.ts'
import type {
  BatchCell,
  WorkerCounts,
  WorkerSettings,
  WorkerTask,
  WorkerTaskResults,
} from '../../../src/workers/protocol/protocol.ts'

interface AskedTask {
  task: WorkerTask
  resolve(value: unknown): void
  reject(error: unknown): void
}

let pids = 1_000_000

/** A worker that does nothing but what a test says. */
export class ScriptedWorker implements WorkerHandle {
  readonly identity = { pid: pids++, startTime: 1 }
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  readonly batches: { cells: Omit<BatchCell, 'record'>[] }[] = []
  readonly tasks: AskedTask[] = []
  /** Tasks and batches in their order. */
  readonly received: string[] = []
  onBatch: ((message: WorkMessage) => void) | undefined
  isReady = false
  counts: WorkerCounts = { statements: 0, commits: 0, cellsOpen: 0 }
  isKilled = false
  isStopped = false
  yields = false
  isEnded = false
  /** The last batch that is over, for tests that keep count. */
  doneBatch: object | undefined
  ranOutOfMemory = false
  memory = 0
  /** The cells whose `incoming.db` it leaves alone. */
  building: string[] | undefined
  readonly hasUsed = new Set<string>()
  cellsClosed = 0
  waited = 0
  ran = 0
  readonly #ready = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()

  constructor() {
    this.ready = this.#ready.promise
    this.ended = this.#ended.promise
    this.ready.catch(() => {})
  }

  /** Its process is up. */
  becomeReady(): void {
    this.isReady = true
    this.#ready.resolve()
  }

  /** Its process is gone. */
  end(): void {
    this.isEnded = true
    this.#ready.reject(new WorkerEnded())
    for (const { reject } of this.tasks.splice(0)) reject(new WorkerEnded())
    this.#ended.resolve()
  }

  say(message: WorkMessage): void {
    this.onBatch?.(message)
  }

  /** Results of operations by their number in the batch, final or those of a transaction with a number. */
  answer(values: Record<number, unknown>, number?: number, before = NO_WAL): void {
    const outcomes = Object.entries(values).map(([index, value]): [number, unknown] => [Number(index), value])
    const transaction = number === undefined ? undefined : { number, before }
    this.say({ type: 'results', outcomes, transaction })
  }

  /** The operations that it was given and is at work on, as the texts or keys of them. */
  get given(): string[] {
    const operations = this.batches.at(-1)?.cells.flatMap((cell) => cell.operations) ?? []
    return operations.map((each) =>
      each.op === 'sql' ? each.sql : 'key' in each ? (each.key ?? each.op) : each.op,
    )
  }

  /** Answers the first task of a kind. */
  reply<K extends WorkerTask['task']>(kind: K, value: WorkerTaskResults[K]): void {
    const at = this.tasks.findIndex(({ task }) => task.task === kind)
    if (at < 0) throw new Error(`The worker was not asked for ${kind}`)
    const [{ resolve }] = this.tasks.splice(at, 1) as [AskedTask]
    resolve(value)
  }

  configure({ building }: WorkerSettings): void {
    this.building = building
  }

  runBatch(cells: Omit<BatchCell, 'record'>[]): void {
    this.batches.push({ cells })
    this.received.push('batch')
    for (const { cellId } of cells) this.hasUsed.add(cellId)
  }

  runTask<T extends WorkerTask>(
    task: T,
    _record: CellRecord | undefined,
  ): Promise<WorkerTaskResults[T['task']]> {
    this.hasUsed.add(task.cellId)
    this.received.push(task.task)
    return new Promise((resolve, reject) => {
      this.tasks.push({ task, resolve: resolve as (value: unknown) => void, reject })
    })
  }

  async closeCell(cellId: string): Promise<boolean> {
    const isClosed = await this.runTask({ task: 'close', cellId }, undefined)
    if (isClosed) {
      this.hasUsed.delete(cellId)
      this.cellsClosed++
    }
    return isClosed
  }

  mayHaveUsed(cellId: string): boolean {
    return this.hasUsed.has(cellId)
  }

  /** Tests that say nothing else have tasks that are answered soon. */
  answered = (): Promise<void> => Promise.resolve()

  get hasTasks(): boolean {
    return this.tasks.length > 0
  }

  unansweredMs(): number {
    return 0
  }

  recorded(): void {}

  setBuilding(cellIds: string[]): void {
    this.building = cellIds
  }

  collectLogs(): Promise<CollectedLogs<PackedPiece>> {
    return Promise.resolve({
      logs: [],
      isAll: true,
      hasMore: false,
      withoutHistory: [],
      withoutHistoryCount: 0,
      unreadable: [],
      asOf: 0,
      allAsOf: null,
      complete: [],
    })
  }

  logsShipped(): void {}

  resetHistories(): void {}

  readonly openResets = []

  forget(): void {}

  residentBytes(): number {
    return this.memory
  }

  waitedMs(): number {
    return this.waited
  }

  processorMs(): number {
    return this.ran
  }

  yieldToOthers(): void {
    this.yields = true
  }

  kill(): void {
    this.isKilled = true
  }

  stop(): void {
    this.isStopped = true
  }
}
