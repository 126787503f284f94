import { toBackupError } from '../../backup/archive/backup-errors.ts'
import {
  type ArchiverClient,
  type BackupRequest,
  type BranchRequest,
  type JobOptions,
  type MadeBackup,
  notShipped,
  type RestoreRequest,
  type VerifyRequest,
} from '../../backup/archiver/archiver.ts'
import type { CellPort } from '../../backup/archiver/cell-port.ts'
import type { ArchiverLoad, Lane, Need } from '../../backup/archiver/job.ts'
import type { EndedCall } from '../../backup/object-store/object-store-calls.ts'
import type { Flushed } from '../../backup/shipping/shipper.ts'
import {
  notBegun,
  type ShippingState,
  type ShippingStatus,
  shippingStatus,
} from '../../backup/shipping/shipping-status.ts'
import type { VerifyResult } from '../../backup/verify/verify-types.ts'
import type { RestoreResult } from '../../backup/versions/backup-types.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import type {
  ArchiverJob,
  ArchiverSettings,
  CellCall,
  FromArchiver,
  ToArchiver,
} from '../protocol/archiver-protocol.ts'
import { logForChild } from '../protocol/log-message.ts'
import { fromWireError, toWireError } from '../protocol/wire-error.ts'
import type { ChildLink } from './child-link.ts'
import { RemoteFlushes } from './remote-flushes.ts'

type ArchiverLink = ChildLink<ToArchiver, FromArchiver>

export interface ArchiverProcessParts {
  settings: Omit<ArchiverSettings, 'epoch'>
  /** The node's epoch; undefined as long as it has none. */
  epoch(): number | undefined
  cells: CellPort
  /** When the node was started, in epoch milliseconds. */
  startedAt: number
  clock: Clock
  log: Log
  /** Starts a process. @throws the system's error if it can't */
  spawn(take: (message: FromArchiver) => void): ArchiverLink
  /** Records the process in the store's directory, so that its next owner can end it. */
  publish(archiver: ProcessIdentity | undefined): void
  /** Called when the bucket is another one than before, where nothing is stored yet. */
  onMoved(): void
  /** Called when the archiver has seen that another node has a newer epoch. */
  onTakenOver(error: CellError): void
  /** Told of each call to the object store. */
  onObjectStoreCall(ended: EndedCall): void
  /** Called when a process has ended, to remove what it left. */
  onEnded(archiver: ProcessIdentity): void
}

/** A new cell from a backup takes its turn among the restores. */
const LANE_OF: Readonly<Record<ArchiverJob['job'], Lane>> = {
  restore: 'restore',
  branch: 'restore',
  backup: 'backup',
  verify: 'verify',
}

interface PendingJob {
  job: ArchiverJob
  options: JobOptions
  resolve(value: unknown): void
  reject(error: unknown): void
  /** Its turn has come in the present process. */
  hasBegun: boolean
  /** Why it was not permitted when its turn came. */
  refusal?: unknown
  /** Processes that ended while it ran. */
  crashes: number
}

/** Delays after a process has ended: its cause may last. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 10_000
/** A job that has ended so many processes is given up: it may be the cause. */
const CRASHES_MAX = 3
/** After its deadline, the time in which the archiver cancels what still runs. */
const CANCEL_MS = 3_000

/**
 * The node's side of its archiver: keeps one process running, and the jobs until they are answered. If the process ends,
 * another one gets all jobs that are open: a backup or a restore leaves nothing that a second try does not replace.
 */
export class ArchiverProcess implements ArchiverClient {
  readonly #parts: ArchiverProcessParts
  readonly #jobs = new Map<number, PendingJob>()
  readonly #flushes = new RemoteFlushes((id) => this.#send({ type: 'flush', id }))
  #shipping: ShippingState | undefined
  #child: ArchiverLink | undefined
  #isReady = false
  #retryMs = RETRY_MS_MIN
  #retry: Timer | undefined
  #ids = 0
  #stopping = false
  #idle = Promise.withResolvers<void>()

  constructor(parts: ArchiverProcessParts) {
    this.#parts = parts
  }

  /** Starts the process. Jobs wait until it is ready. */
  start(): void {
    const { spawn, publish, log, settings, epoch } = this.#parts
    let child: ArchiverLink
    try {
      child = spawn((message) => this.#take(message, child))
    } catch (err) {
      log.error({ err }, 'could not start the archiver process; trying again')
      this.#startLater()
      return
    }
    this.#child = child
    // Recorded before it opens anything, so that the next owner of the directory can end it.
    publish(child.identity)
    child.send({ type: 'settings', settings: { ...settings, epoch: epoch() } })
    void child.ended.then(() => this.#ended(child))
  }

  /** @throws `store_closed` once {@link stop} was called */
  assertRunning(): void {
    if (this.#stopping) throw storeClosed()
  }

  backup(request: BackupRequest, options: JobOptions): Promise<MadeBackup> {
    return this.#run({ job: 'backup', request }, options) as Promise<MadeBackup>
  }

  restore(request: RestoreRequest, options: JobOptions): Promise<RestoreResult | undefined> {
    return this.#run({ job: 'restore', request }, options) as Promise<RestoreResult | undefined>
  }

  branch(request: BranchRequest, options: JobOptions): Promise<RestoreResult> {
    return this.#run({ job: 'branch', request }, options) as Promise<RestoreResult>
  }

  verify(request: VerifyRequest, options: JobOptions): Promise<VerifyResult> {
    return this.#run({ job: 'verify', request }, options) as Promise<VerifyResult>
  }

  get load(): ArchiverLoad {
    const of = (lane: Lane) => {
      const jobs = [...this.#jobs.values()].filter(({ job }) => LANE_OF[job.job] === lane)
      const running = jobs.filter(({ hasBegun }) => hasBegun).length
      return { waiting: jobs.length - running, running }
    }
    return { restore: of('restore'), backup: of('backup'), verify: of('verify') }
  }

  raise(cellId: string, need: Need): void {
    for (const { job } of this.#jobs.values()) if (job.request.cellId === cellId) job.request.need = need
    this.#send({ type: 'raise', cellId, need })
  }

  async flush(signal?: AbortSignal): Promise<Flushed> {
    this.assertRunning()
    if (this.#parts.settings.shipping === undefined) throw notShipped()
    return await this.#flushes.run(signal)
  }

  get shipping(): ShippingStatus | undefined {
    const { settings, clock, startedAt } = this.#parts
    if (settings.shipping === undefined) return undefined
    return shippingStatus(this.#shipping ?? notBegun(startedAt), clock.now())
  }

  /** The node has taken an epoch. */
  held(epoch: number): void {
    this.#child?.send({ type: 'epoch', epoch })
  }

  /** Takes no more jobs. Those that it has may end until the deadline, and are cancelled then. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true
    const child = this.#child
    if (child === undefined) this.#rejectAll()
    else {
      const kill = () => child.kill()
      if (this.#isReady) child.send({ type: 'stop', deadlineMs })
      else kill()
      const timer = this.#parts.clock.setTimer(kill, deadlineMs + CANCEL_MS)
      await child.ended
      timer.cancel()
    }
    this.#retry?.cancel()
    while (this.#jobs.size > 0) await this.#idle.promise
  }

  async #run(job: ArchiverJob, options: JobOptions): Promise<unknown> {
    this.assertRunning()
    const { signal } = options
    if (signal?.aborted === true) throw toBackupError(signal.reason, signal)
    const id = ++this.#ids
    const abort = () => this.#abort(id, signal)
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await new Promise((resolve, reject) => {
        this.#jobs.set(id, { job, options, resolve, reject, hasBegun: false, crashes: 0 })
        this.#send({ type: 'job', id, job })
      })
    } catch (error) {
      throw toBackupError(error, signal)
    } finally {
      signal?.removeEventListener('abort', abort)
      this.#jobs.delete(id)
      this.#idle.resolve()
      this.#idle = Promise.withResolvers()
    }
  }

  /** Without a process, nothing of the job runs. Otherwise its answer comes once it has cleaned up. */
  #abort(id: number, signal: AbortSignal | undefined): void {
    if (this.#isReady) this.#send({ type: 'abort', id })
    else this.#jobs.get(id)?.reject(signal?.reason)
  }

  /** Before the process is ready nothing is sent: it then gets all jobs that are open. */
  #send(message: ToArchiver): void {
    if (this.#isReady) this.#child?.send(message)
  }

  #take(message: FromArchiver, child: ArchiverLink): void {
    switch (message.type) {
      case 'ready':
        this.#isReady = true
        for (const [id, { job }] of this.#jobs) this.#send({ type: 'job', id, job })
        this.#flushes.sendAll()
        break
      case 'begun': {
        const job = this.#jobs.get(message.id)
        if (job !== undefined) this.#begun(message.id, job)
        break
      }
      case 'progress':
        this.#jobs.get(message.id)?.options.onProgress?.(message.event)
        break
      case 'reply':
        this.#retryMs = RETRY_MS_MIN
        this.#settle(message)
        break
      case 'flushed':
        this.#flushes.settle(message)
        break
      case 'shipping':
        this.#shipping = message.state
        break
      case 'moved':
        this.#parts.onMoved()
        break
      case 'taken-over':
        this.#parts.onTakenOver(fromWireError(message.error) as CellError)
        break
      case 'call':
        void this.#answer(message.id, message.call, child)
        break
      case 'object-store':
        this.#parts.onObjectStoreCall(message.ended)
        break
      case 'log':
        logForChild(this.#parts.log, message, { archiver: child.identity.pid })
    }
  }

  #settle({ id, value, error }: Extract<FromArchiver, { type: 'reply' }>): void {
    const job = this.#jobs.get(id)
    if (error === undefined) job?.resolve(value)
    else job?.reject(job.refusal ?? fromWireError(error))
  }

  /** The archiver asks this process before it touches the cell, so a job without a permit ends before that. */
  #begun(id: number, job: PendingJob): void {
    job.hasBegun = true
    job.options.onBegin?.()
    try {
      job.options.permit?.check()
    } catch (refusal) {
      job.refusal = refusal
      this.#send({ type: 'abort', id })
    }
  }

  async #answer(id: number, { method, args }: CellCall, child: ArchiverLink): Promise<void> {
    try {
      const call = this.#parts.cells[method] as (...args: unknown[]) => Promise<unknown>
      const value = await call.apply(this.#parts.cells, args)
      child.send({ type: 'answer', id, value, error: undefined })
    } catch (error) {
      child.send({ type: 'answer', id, value: undefined, error: toWireError(error) })
    }
  }

  #ended(child: ArchiverLink): void {
    const { publish, onEnded, log } = this.#parts
    this.#child = undefined
    this.#isReady = false
    publish(undefined)
    onEnded(child.identity)
    if (this.#stopping) {
      this.#rejectAll()
      return
    }
    log.warn({ archiver: child.identity.pid }, 'the archiver has ended; a new one takes its place')
    for (const job of this.#jobs.values()) {
      if (job.refusal !== undefined) job.reject(job.refusal)
      else if (job.options.signal?.aborted === true) job.reject(job.options.signal.reason)
      else if (job.hasBegun && ++job.crashes === CRASHES_MAX) this.#giveUp(job, endedAgain())
      job.hasBegun = false
    }
    this.#startLater()
  }

  #giveUp({ job, reject }: PendingJob, error: CellError): void {
    void this.#clearUp(job)
    reject(error)
  }

  /** What the archiver would have said at the end of the job. The workers may have ended too. */
  async #clearUp({ job, request: { cellId } }: ArchiverJob): Promise<void> {
    const { cells, log } = this.#parts
    if (job === 'verify' || job === 'branch') return
    try {
      if (job === 'restore') return await cells.endRestore(cellId)
      await cells.failed(cellId)
      await cells.endBackup(cellId)
    } catch (err) {
      log.warn({ cellId, err }, 'could not end a backup of an archiver that has ended')
    }
  }

  #rejectAll(): void {
    this.#flushes.rejectAll(storeClosed())
    for (const job of this.#jobs.values()) this.#giveUp(job, storeClosed())
  }

  #startLater(): void {
    this.#retry = this.#parts.clock.setTimer(() => this.start(), this.#retryMs, { keepsAlive: true })
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }
}

function storeClosed(): CellError {
  return new CellError('store_closed', 'The store is closed.')
}

function endedAgain(): CellError {
  return new CellError(
    'busy',
    `The archiver process ended ${CRASHES_MAX} times during this backup or restore. Try again.`,
    { retryAfterMs: 5_000 },
  )
}
