import type { ChildProcess } from 'node:child_process'
import type { HistoryReset } from '../../../backup/changes/change-trackers.ts'
import type { CollectedLogs, CollectLimits, ShippedPlace } from '../../../backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../../backup/changes/log/packed-logs.ts'
import { ProcessStats } from '../../../base/machine/process-stats.ts'
import type { CellRecord } from '../../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../../catalog/directory-lock.ts'
import { ChildLink } from '../../children/child-link.ts'
import { OpenCalls } from '../../protocol/open-calls.ts'
import { Packing } from '../../protocol/packed.ts'
import type {
  BatchCell,
  FromWorker,
  ToWorker,
  WorkerCounts,
  WorkerSettings,
  WorkerTask,
  WorkerTaskResults,
} from '../../protocol/protocol.ts'

/** Messages about the running batch. */
export type BatchMessage = Extract<
  FromWorker,
  { type: 'started' | 'overhead' | 'results' | 'unsynced' | 'committing' | 'committed' | 'done' }
>

/** Messages about what the worker does now. */
export type WorkMessage = BatchMessage | Extract<FromWorker, { type: 'working' | 'slow' | 'released' }>

/** Messages about anything else, except tasks. */
export type WorkerMessage = Extract<
  FromWorker,
  { type: 'changed' | 'commit' | 'interrupted' | 'expiry' | 'unshipped' | 'log' }
>

export interface TaskOptions {
  signal?: AbortSignal | undefined
}

/** Who watches cells, as far as a worker's commits are concerned. */
export interface Watches {
  isWatched(cellId: string): boolean
  /** Commits of the cell may have been missed. */
  interrupted(cellId: string): void
}

/** The worker ended before the task did. The task can run in another one. */
export class WorkerEnded extends Error {
  constructor() {
    super('The worker has ended.')
  }
}

const OUT_OF_MEMORY_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set(['SIGABRT', 'SIGTRAP', 'SIGILL'])

/** How often a worker is asked whether it still answers. */
const PING_EVERY_MS = 1_000

/** So many cells are remembered as used. After that, any may be. */
const USED_CELLS_MAX = 100_000

/** A worker keeps the records of this many cells. */
const SENT_RECORDS_MAX = 10_000

/** Of so many cells that it watches, those whose watches are over are looked for. */
const WATCHED_CELLS_MAX = 1_000

/** A worker as other parts use it; tests replace it. */
export type WorkerHandle = Pick<WorkerProcess, keyof WorkerProcess>

/** The node's side of one worker: a child process, and the messages to and from it. */
export class WorkerProcess {
  /** Resolves once the worker accepts work; rejects if it ends before that. */
  readonly ready: Promise<void>
  /** Resolves once the process has ended. */
  readonly ended: Promise<void>
  onBatch: ((message: WorkMessage, parts?: Buffer[]) => void) | undefined
  readonly #link: ChildLink<ToWorker, FromWorker>
  readonly #stats: ProcessStats
  /** Tasks, and looks at what its cells have not shipped. */
  readonly #calls = new OpenCalls<unknown>()
  /** Cells whose record the worker has. */
  readonly #sentRecords = new Set<string>()
  readonly #usedCells = new Set<string>()
  /** Cells of whose commits the worker tells. */
  readonly #watchedCells = new Set<string>()
  #watchedMax = WATCHED_CELLS_MAX
  readonly #watches: Watches
  #cellsClosed = 0
  readonly #openResets: HistoryReset[] = []
  /** Monotonic time of the last ping. */
  #pingedAt = Number.NEGATIVE_INFINITY
  #hasAnswered = true
  #isReady = false
  #counts: WorkerCounts = { statements: 0, commits: 0, cellsOpen: 0 }

  constructor(
    child: ChildProcess,
    watches: Watches,
    onMessage: (message: WorkerMessage, worker: WorkerHandle) => void,
  ) {
    this.#watches = watches
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#link = new ChildLink(child, (message, parts) => this.#take(message, parts, resolve, onMessage))
    this.#stats = new ProcessStats(this.#link.identity.pid)
    this.ended = this.#link.ended.then(() => this.#end())
    this.ready = promise
    this.ready.catch(() => {})
    void this.ended.then(() => reject(new WorkerEnded()))
  }

  get identity(): ProcessIdentity {
    return this.#link.identity
  }

  /** As it said at the end of its newest batch. */
  get counts(): WorkerCounts {
    return this.#counts
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** Call once the worker is published in the lock file: from here on it may open the store's files. */
  configure(settings: WorkerSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /** @param cells without their records; those that the worker lacks are added */
  runBatch(cells: Omit<BatchCell, 'record'>[], record: (cellId: string) => CellRecord | undefined): void {
    const forget = this.#sentRecords.size > SENT_RECORDS_MAX ? [...this.#sentRecords] : []
    for (const cellId of forget) this.#sentRecords.delete(cellId)
    const packing = new Packing()
    const packed = cells.map((cell) => {
      this.#use(cell.cellId)
      if (this.#sentRecords.has(cell.cellId)) return packing.cell({ ...cell, record: undefined })
      this.#sentRecords.add(cell.cellId)
      return packing.cell({ ...cell, record: record(cell.cellId) })
    })
    const { parts, isJson } = packing.envelope
    this.#link.send({ type: 'batch', forget, cells: packed }, parts, isJson)
  }

  /** @throws `WorkerEnded`, and what the task throws */
  runTask<T extends WorkerTask>(
    task: T,
    record: CellRecord | undefined,
    { signal }: TaskOptions = {},
  ): Promise<WorkerTaskResults[T['task']]> {
    this.#use(task.cellId)
    const answer = this.#ask((id) => ({ type: 'task', id, record, task }), signal)
    return answer as Promise<WorkerTaskResults[T['task']]>
  }

  #ask(message: (id: number) => ToWorker, signal?: AbortSignal): Promise<unknown> {
    const { id, promise, reject } = this.#calls.begin(undefined)
    if (this.#link.hasExited) {
      // Not before its slot knows: the next try would come here again at once.
      void this.ended.then(() => reject(new WorkerEnded()))
      return promise
    }
    this.#send(message(id))
    if (signal === undefined) return promise
    const abort = () => this.#send({ type: 'abort', id })
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    return promise.finally(() => signal.removeEventListener('abort', abort))
  }

  /** Closes a cell. @returns false if it still needs the cell @throws as {@link runTask} */
  async closeCell(cellId: string, record: CellRecord | undefined): Promise<boolean> {
    const isClosed = await this.runTask({ task: 'close', cellId }, record)
    if (isClosed) {
      this.#usedCells.delete(cellId)
      this.#cellsClosed++
    }
    return isClosed
  }

  /** How many cells it has given away. */
  get cellsClosed(): number {
    return this.#cellsClosed
  }

  /** False only if it has had nothing to do for the cell since it closed it: then the cell is not open there. */
  mayHaveUsed(cellId: string): boolean {
    return this.#usedCells.size >= USED_CELLS_MAX || this.#usedCells.has(cellId)
  }

  /** Before each message about a cell: only with work for it can there be commits of it. */
  #use(cellId: string): void {
    const isWatched = this.#watches.isWatched(cellId)
    if (isWatched !== this.#watchedCells.has(cellId)) {
      if (isWatched && this.#watchedCells.size >= this.#watchedMax) this.#endOldWatches()
      this.#setWatched(cellId, isWatched)
    }
    if (this.#usedCells.size < USED_CELLS_MAX) this.#usedCells.add(cellId)
  }

  /** The end of a watch is told of with the next message about its cell, and there may never be one. */
  #endOldWatches(): void {
    for (const cellId of this.#watchedCells)
      if (!this.#watches.isWatched(cellId)) this.#setWatched(cellId, false)
    // Twice as many as there are now: each costs one look.
    this.#watchedMax = Math.max(WATCHED_CELLS_MAX, 2 * this.#watchedCells.size)
  }

  #setWatched(cellId: string, isWatched: boolean): void {
    if (isWatched) this.#watchedCells.add(cellId)
    else this.#watchedCells.delete(cellId)
    this.#send({ type: 'watch', cellId, isWatched })
  }

  /** Whether it has anything to answer besides its batch. */
  get hasTasks(): boolean {
    return this.#calls.size > 0
  }

  /** Resolves once everything that it was asked so far, besides batches, is answered. */
  async answered(): Promise<void> {
    await Promise.allSettled([...this.#calls].map(({ promise }) => promise))
  }

  /** What its cells have committed and not shipped. @throws `WorkerEnded` */
  collectLogs(limits: CollectLimits): Promise<CollectedLogs<PackedPiece>> {
    const answer = this.#ask((id) => ({ type: 'collect-logs', id, limits }))
    return answer as Promise<CollectedLogs<PackedPiece>>
  }

  /** Everything before these places is in the object store. */
  logsShipped(places: ShippedPlace[]): void {
    this.#send({ type: 'logs-shipped', places })
  }

  resetHistories(reset: HistoryReset): void {
    this.#openResets.push(reset)
    this.#send({ type: 'reset-histories', reset })
  }

  /** Resets that it was asked for and has not said that it has done: it may have saved something older. */
  get openResets(): readonly HistoryReset[] {
    return this.#openResets
  }

  /** The cells whose `incoming.db` is being built. */
  setBuilding(cellIds: string[]): void {
    this.#send({ type: 'building', cellIds })
  }

  /** Asks now and then whether it still answers. @returns for how many milliseconds it has not */
  unansweredMs(now: number): number {
    if (this.#hasAnswered && now - this.#pingedAt >= PING_EVERY_MS) {
      this.#pingedAt = now
      this.#hasAnswered = false
      this.#send({ type: 'ping' })
    }
    return this.#hasAnswered ? 0 : now - this.#pingedAt
  }

  /** The cell's record has changed: the next message about the cell carries it. */
  forget(cellId: string): void {
    this.#sentRecords.delete(cellId)
  }

  residentBytes(): number {
    return this.#stats.residentBytes()
  }

  /** Milliseconds that it was ready to run but had no processor. */
  waitedMs(): number {
    return this.#stats.waitedMs()
  }

  /** Milliseconds that it ran on a processor. */
  processorMs(): number {
    return this.#stats.processorMs()
  }

  /** Lowers its priority, so that the slow worker does not slow down the others. */
  yieldToOthers(): void {
    this.#link.yieldToOthers()
  }

  /** Whether it ended with a signal that V8 uses when an allocation fails. */
  get ranOutOfMemory(): boolean {
    const { signal } = this.#link
    return signal !== null && OUT_OF_MEMORY_SIGNALS.has(signal)
  }

  kill(): void {
    this.#link.kill()
  }

  /** Lets it finish its work, close its cells and exit. */
  stop(): void {
    this.#send({ type: 'stop' })
  }

  #send(message: ToWorker): void {
    this.#link.send(message)
  }

  #take(
    message: FromWorker,
    parts: Buffer[],
    ready: () => void,
    onMessage: (message: WorkerMessage, worker: WorkerHandle) => void,
  ): void {
    switch (message.type) {
      case 'ready':
        this.#isReady = true
        ready()
        break
      case 'pong':
        this.#hasAnswered = true
        break
      case 'histories-reset':
        this.#openResets.shift()
        break
      case 'reply':
        this.#calls.settle(message)
        break
      case 'changed':
      case 'commit':
      case 'interrupted':
      case 'expiry':
      case 'unshipped':
      case 'log':
        onMessage(message, this)
        break
      case 'done':
        if (message.counts !== undefined) this.#counts = message.counts
        this.onBatch?.(message, parts)
        break
      default:
        this.onBatch?.(message, parts)
    }
  }

  #end(): void {
    // It may have committed what it did not live to tell.
    for (const cellId of this.#watchedCells) this.#watches.interrupted(cellId)
    this.#calls.rejectAll(new WorkerEnded())
    this.#stats.close()
  }
}
