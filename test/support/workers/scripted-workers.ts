import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { silentLog } from '../../../src/base/log.ts'
import { isCellError } from '../../../src/errors.ts'
import type { QueuedOperation } from '../../../src/workers/node/dispatch/queued-operation.ts'
import { WorkerPool, type WorkerPoolParts } from '../../../src/workers/node/dispatch/worker-pool.ts'
import { FakeClock } from '../fake-clock.ts'
import { ScriptedWorker } from './scripted-worker.ts'

/** Cells of the only home worker. */
export const A = 'aaaaaaaa-0000-4000-8000-000000000000'
export const B = 'bbbbbbbb-0000-4000-8000-000000000000'
export const C = 'cccccccc-0000-4000-8000-000000000000'

export const BLOCK_MS = 40
const SLICE_MS = 20
export const STATEMENT_MS = 5_000
export const WAIT_MS = 20_000
export const SLOW_WORKER_MS = 30_000
export const MEMORY_MAX = 1_000
export const LOG_BYTES_MAX = 1_000
/** A cell may cost one of them. */
export const KILLS_BURST = 3

export interface Asked {
  /** What it was answered with, once it was. */
  answer?: unknown
  error?: { code?: string; message: string }
  abandon(): void
  operation: QueuedOperation
}

/** The workers of a node without a process: a test says what each of them does, and when. */
export class ScriptedWorkers {
  readonly clock = new FakeClock()
  readonly all: ScriptedWorker[] = []
  readonly workers: WorkerPool
  /** Bytes of the write-ahead logs of cells. */
  readonly logBytes = new Map<string, number>()
  /** What the system says to whoever wants another process. */
  refusal: Error | undefined
  /** Whether a process is up as soon as it is started. */
  startsAtOnce = true

  constructor(parts: Partial<WorkerPoolParts> = {}) {
    this.workers = new WorkerPool({
      count: 1,
      clock: this.clock,
      log: silentLog,
      limits: {
        blockMs: BLOCK_MS,
        sliceMs: SLICE_MS,
        slowWorkerMs: SLOW_WORKER_MS,
        silentMs: 30_000,
        memoryMax: MEMORY_MAX,
        killsPerMinute: 6,
        killsBurst: KILLS_BURST,
      },
      bounds: { operationsMax: 1_000, operationsPerCellMax: 500, bytesMax: 1_000_000 },
      settings: {} as WorkerPoolParts['settings'],
      record: () => undefined,
      publish: () => {},
      logBytesMax: LOG_BYTES_MAX,
      logBytes: (cellId) => this.logBytes.get(cellId) ?? 0,
      ended: () => {},
      spawnWorker: () => this.#start(),
      taskMs: STATEMENT_MS,
      ...parts,
    })
  }

  static async started(parts: Partial<WorkerPoolParts> = {}): Promise<ScriptedWorkers> {
    const scripted = new ScriptedWorkers(parts)
    await scripted.workers.start()
    return scripted
  }

  #start(): ScriptedWorker {
    if (this.refusal !== undefined) throw this.refusal
    const worker = new ScriptedWorker()
    this.all.push(worker)
    if (this.startsAtOnce) worker.becomeReady()
    return worker
  }

  /** The worker that was given a batch or a task last. */
  get busy(): ScriptedWorker {
    const found = this.all.findLast(({ batches, tasks }) => batches.length > 0 || tasks.length > 0)
    if (found === undefined) throw new Error('No worker was asked anything')
    return found
  }

  /** Those that have not ended, and were asked something. */
  get asked(): ScriptedWorker[] {
    return this.all.filter(
      ({ batches, tasks, isKilled }) => !isKilled && (batches.length > 0 || tasks.length > 0),
    )
  }

  sql(cellId: string, text: string, told: Partial<QueuedOperation> = {}): Asked {
    return this.#add(cellId, { op: 'sql', sql: text }, told)
  }

  put(cellId: string, key: string, told: Partial<QueuedOperation> = {}): Asked {
    return this.#add(cellId, { op: 'kv.put', key, value: '' }, told)
  }

  #add(cellId: string, operation: QueuedOperation['operation'], told: Partial<QueuedOperation>): Asked {
    const abort = new AbortController()
    const queued: QueuedOperation = {
      cellId,
      accountId: cellId,
      operation,
      bytes: 1,
      statementMs: STATEMENT_MS,
      notAfter: this.clock.monotonic() + WAIT_MS,
      signal: abort.signal,
      crashes: 0,
      isSettled: false,
      settle: (outcome) => {
        if (queued.isSettled) return
        queued.isSettled = true
        if (outcome.ok) asked.answer = outcome.value
        else asked.error = outcome.error as Error
      },
      ...told,
    }
    const asked: Asked = {
      operation: queued,
      abandon: () => {
        abort.abort(new Error('gone'))
        queued.settle({ ok: false, error: abort.signal.reason })
      },
    }
    this.workers.add(queued)
    return asked
  }

  /** Whether the cell is told to wait because it has cost workers. */
  hasToWait(cellId: string, told: Partial<QueuedOperation> = {}): boolean {
    try {
      this.put(cellId, 'one more', told)
      return false
    } catch (error) {
      if (!isCellError(error, 'rate_limited')) throw error
      return true
    }
  }

  /** Lets everything happen that is due now. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
  }

  /** Lets time pass, with a look at the workers every few milliseconds of it. */
  async pass(ms: number): Promise<void> {
    const end = this.clock.monotonic() + ms
    while (this.clock.monotonic() < end) {
      this.clock.advance(Math.min(10, end - this.clock.monotonic()))
      await this.settle()
    }
  }

  /** The process is gone, and another has taken its place. */
  async end(worker: ScriptedWorker): Promise<void> {
    worker.end()
    await this.settle()
  }
}
