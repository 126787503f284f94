import { localFailure, toBackupError } from '../../../backup/archive/backup-errors.ts'
import {
  type ArchiverClient,
  type ArchiverRequest,
  type BackupRequest,
  type BranchRequest,
  type JobOptions,
  type MadeBackup,
  notShipped,
  type RestoreRequest,
  type VerifyRequest,
} from '../../../backup/archiver/archiver.ts'
import type { ArchiverLoad, Need } from '../../../backup/archiver/job.ts'
import type { EndedCall } from '../../../backup/object-store/object-store-calls.ts'
import type { Flushed, FlushOptions } from '../../../backup/shipping/flushes.ts'
import {
  notBegun,
  type ShippingState,
  type ShippingStatus,
  shippingStatus,
} from '../../../backup/shipping/shipping-status.ts'
import type { VerifyResult } from '../../../backup/verify/verify-types.ts'
import type { RestoreResult } from '../../../backup/versions/backup-types.ts'
import { backOffMs } from '../../../base/async/back-off.ts'
import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import { type Clock, type Timer, within } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import type { ProcessIdentity } from '../../../catalog/directory-lock.ts'
import { CellError } from '../../../errors.ts'
import type { ChildLink } from '../../children/child-link.ts'
import type {
  ArchiverJob,
  ArchiverSettings,
  CellCall,
  FromArchiver,
  ServedCells,
  ToArchiver,
} from '../../protocol/archiver-protocol.ts'
import { logForChild } from '../../protocol/log-message.ts'
import { OpenCalls } from '../../protocol/open-calls.ts'
import { fromWireError, toWireError } from '../../protocol/wire-error.ts'
import { ArchiverJobs } from './archiver-jobs.ts'
import { SilenceWatch } from './silence-watch.ts'

type ArchiverLink = ChildLink<ToArchiver, FromArchiver>

export interface ArchiverProcessParts {
  settings: Omit<ArchiverSettings, 'epoch'>
  /** The node's epoch; undefined as long as it has none. */
  epoch(): number | undefined
  cells: ServedCells
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

/** Delays after a process has ended: its cause may last. */
const BACK_OFF = { minMs: 100, maxMs: 10_000 }
/** After its deadline, the time in which the archiver cancels what still runs. */
const CANCEL_MS = 3_000

/**
 * The node's side of its archiver: keeps one process running, and the jobs until they are answered. If the process ends,
 * another one gets all jobs that are open: a backup or a restore leaves nothing that a second try does not replace. A restore
 * that has switched is not open any more.
 */
export class ArchiverProcess implements ArchiverClient {
  readonly #parts: ArchiverProcessParts
  readonly #jobs: ArchiverJobs
  /** Flushes that it has not answered. Another archiver gets them all: its look at the cells is a later one. */
  readonly #flushes = new OpenCalls<Flushed, FlushOptions['cells']>()
  #shipping: ShippingState | undefined
  #child: ArchiverLink | undefined
  #isReady = false
  #watch: SilenceWatch | undefined
  #retries = 0
  #retry: Timer | undefined
  #stopping = false

  constructor(parts: ArchiverProcessParts) {
    this.#parts = parts
    const { cells, log } = parts
    this.#jobs = new ArchiverJobs({ cells, log, send: (message) => this.#send(message) })
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

  async prepare(request: ArchiverRequest, options: JobOptions): Promise<void> {
    await this.#run({ job: 'prepare', request }, options)
  }

  async settle(request: ArchiverRequest, options: JobOptions): Promise<void> {
    await this.#run({ job: 'settle', request }, options)
  }

  get cellsAtWork(): string[] {
    return this.#jobs.cells
  }

  get load(): ArchiverLoad {
    return this.#jobs.load
  }

  raise(cellId: string, need: Need): void {
    this.#jobs.raise(cellId, need)
  }

  async flush(signal?: AbortSignal, options?: Pick<FlushOptions, 'cells'>): Promise<Flushed> {
    this.assertRunning()
    if (this.#parts.settings.shipping === undefined) throw notShipped()
    signal?.throwIfAborted()
    const { id, promise } = this.#flushes.begin(options?.cells)
    this.#send({ type: 'flush', id, cells: options?.cells })
    return await unlessAborted(promise, signal)
  }

  get shipping(): ShippingStatus | undefined {
    const { settings, clock, startedAt } = this.#parts
    if (settings.shipping === undefined) return undefined
    return shippingStatus(this.#shipping ?? notBegun(startedAt), clock.now())
  }

  /** The node has taken an epoch. */
  setEpoch(epoch: number): void {
    this.#child?.send({ type: 'epoch', epoch })
  }

  /** Takes no more jobs. Those that it has may end until the deadline, and are cancelled then. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true
    const { clock } = this.#parts
    const child = this.#child
    const overAt = clock.monotonic() + deadlineMs + CANCEL_MS
    if (child === undefined) this.#rejectAll()
    else {
      const kill = () => child.kill()
      if (this.#isReady) child.send({ type: 'stop', deadlineMs })
      else kill()
      const timer = clock.setTimer(kill, deadlineMs + CANCEL_MS)
      await child.ended
      timer.cancel()
    }
    this.#retry?.cancel()
    // A worker can hold a switch up, and the workers are ended after the archiver.
    await within(clock, Math.max(0, overAt - clock.monotonic()), this.#jobs.idle())
    this.#jobs.abandonAll(storeClosed())
  }

  async #run(job: ArchiverJob, options: JobOptions): Promise<unknown> {
    this.assertRunning()
    return await this.#jobs.run(job, options)
  }

  /** Before the process is ready nothing is sent: it then gets all jobs that are open. */
  #send(message: ToArchiver): boolean {
    if (this.#isReady) this.#child?.send(message)
    return this.#isReady
  }

  #take(message: FromArchiver, child: ArchiverLink): void {
    switch (message.type) {
      case 'ready':
        this.#isReady = true
        this.#watch = this.#newWatch(child)
        this.#jobs.sendAll()
        for (const { id, state } of this.#flushes) this.#send({ type: 'flush', id, cells: state })
        break
      case 'pong':
        this.#watch?.answered()
        break
      case 'begun':
        this.#jobs.begun(message.id)
        break
      case 'progress':
        this.#jobs.progress(message)
        break
      case 'reply':
        this.#retries = 0
        this.#jobs.settle(message)
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

  /** A step that never ends holds up all other jobs, and nothing but the end of the process ends it. */
  #newWatch(child: ArchiverLink): SilenceWatch {
    const { clock, log } = this.#parts
    return new SilenceWatch(clock, {
      ping: () => child.send({ type: 'ping' }),
      onSilent: () => {
        const { pid } = child.identity
        log.error(
          { archiver: pid, cells: this.#jobs.begunCells },
          'the archiver answers nothing; it is ended',
        )
        child.kill()
      },
    })
  }

  async #answer(id: number, { method, args }: CellCall, child: ArchiverLink): Promise<void> {
    try {
      const call = this.#parts.cells[method] as (...args: unknown[]) => Promise<unknown>
      const answer = call.apply(this.#parts.cells, args)
      if (method === 'install') this.#jobs.switching(args[0], args[1].result, answer)
      const value = await answer
      child.send({ type: 'answer', id, value, error: undefined })
    } catch (error) {
      // Only codes of ours arrive. A full disk, for example, has one; what has none keeps its words.
      const isKnown = (localFailure(error) ?? 'internal') !== 'internal'
      const sent = isKnown ? toBackupError(error) : error
      child.send({ type: 'answer', id, value: undefined, error: toWireError(sent) })
    }
  }

  #ended(child: ArchiverLink): void {
    const { publish, onEnded, log } = this.#parts
    this.#child = undefined
    this.#isReady = false
    this.#watch?.end()
    publish(undefined)
    onEnded(child.identity)
    if (this.#stopping) {
      this.#rejectAll()
      return
    }
    log.warn({ archiver: child.identity.pid }, 'the archiver has ended; a new one takes its place')
    this.#jobs.processEnded()
    this.#startLater()
  }

  #rejectAll(): void {
    this.#flushes.rejectAll(storeClosed())
    this.#jobs.rejectAll(storeClosed())
  }

  #startLater(): void {
    const waitMs = backOffMs(this.#retries++, BACK_OFF)
    this.#retry = this.#parts.clock.setTimer(() => this.start(), waitMs, { keepsAlive: true })
  }
}

function storeClosed(): CellError {
  return new CellError('store_closed', 'The store is closed.')
}
