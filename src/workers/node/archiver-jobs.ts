import { toBackupError } from '../../backup/archive/backup-errors.ts'
import type { JobOptions } from '../../backup/archiver/archiver.ts'
import type { ArchiverLoad, Lane, Need } from '../../backup/archiver/job.ts'
import type { RestoreResult } from '../../backup/versions/backup-types.ts'
import type { Log } from '../../base/log.ts'
import { CellError } from '../../errors.ts'
import type { ArchiverJob, FromArchiver, ServedCells, ToArchiver } from '../protocol/archiver-protocol.ts'
import { fromWireError } from '../protocol/wire-error.ts'

/** A new cell from a backup takes its turn among the restores. */
const LANE_OF: Readonly<Record<ArchiverJob['job'], Lane>> = {
  restore: 'restore',
  branch: 'restore',
  backup: 'backup',
  verify: 'verify',
  settle: 'backup',
}

/** A job that has ended so many processes is given up: it may be the cause. */
const CRASHES_MAX = 3

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
  /** Of a restore whose switch was asked for: its answer, or undefined if the switch fails. */
  switched?: Promise<RestoreResult | undefined> | undefined
  /** What becomes of it if that fails: its process has ended meanwhile. */
  goOn?: (() => void) | undefined
}

export interface ArchiverJobsParts {
  cells: ServedCells
  log: Log
  /** To the present process. False if there is none that is ready: it gets all jobs once it is ({@link ArchiverJobs.sendAll}). */
  send(message: ToArchiver): boolean
}

/** The jobs that an archiver has not answered yet. They outlive its process. */
export class ArchiverJobs {
  readonly #parts: ArchiverJobsParts
  readonly #pending = new Map<number, PendingJob>()
  #ids = 0
  #idle = Promise.withResolvers<void>()

  constructor(parts: ArchiverJobsParts) {
    this.#parts = parts
  }

  async run(job: ArchiverJob, options: JobOptions): Promise<unknown> {
    const { signal } = options
    if (signal?.aborted === true) throw toBackupError(signal.reason, signal)
    const id = ++this.#ids
    const abort = () => this.#abort(id, signal)
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await new Promise((resolve, reject) => {
        this.#pending.set(id, { job, options, resolve, reject, hasBegun: false, crashes: 0 })
        this.#parts.send({ type: 'job', id, job })
      })
    } catch (error) {
      throw toBackupError(error, signal)
    } finally {
      signal?.removeEventListener('abort', abort)
      this.#pending.delete(id)
      this.#idle.resolve()
      this.#idle = Promise.withResolvers()
    }
  }

  get load(): ArchiverLoad {
    const of = (lane: Lane) => {
      const jobs = [...this.#pending.values()].filter(({ job }) => LANE_OF[job.job] === lane)
      const running = jobs.filter(({ hasBegun }) => hasBegun).length
      return { waiting: jobs.length - running, running }
    }
    return { restore: of('restore'), backup: of('backup'), verify: of('verify') }
  }

  /** The cells of the jobs that run. */
  get begunCells(): string[] {
    const begun = [...this.#pending.values()].filter(({ hasBegun }) => hasBegun)
    return begun.map(({ job }) => job.request.cellId)
  }

  raise(cellId: string, need: Need): void {
    for (const { job } of this.#pending.values()) if (job.request.cellId === cellId) job.request.need = need
    this.#parts.send({ type: 'raise', cellId, need })
  }

  /** A new process is ready. */
  sendAll(): void {
    for (const [id, { job, switched }] of this.#pending)
      if (switched === undefined) this.#parts.send({ type: 'job', id, job })
  }

  /** The archiver asks this process before it touches the cell, so a job without a permit ends before that. */
  begun(id: number): void {
    const job = this.#pending.get(id)
    if (job === undefined) return
    job.hasBegun = true
    job.options.onBegin?.()
    try {
      job.options.permit?.check()
    } catch (refusal) {
      job.refusal = refusal
      this.#parts.send({ type: 'abort', id })
    }
  }

  progress({ id, event }: Extract<FromArchiver, { type: 'progress' }>): void {
    this.#pending.get(id)?.options.onProgress?.(event)
  }

  settle({ id, value, error }: Extract<FromArchiver, { type: 'reply' }>): void {
    const job = this.#pending.get(id)
    if (error === undefined) job?.resolve(value)
    else job?.reject(job.refusal ?? fromWireError(error))
  }

  /**
   * The archiver has asked for the switch to what it has restored. Once that is done, so is the restore: another archiver
   * would take the restored state for the one that it replaces.
   */
  switching(cellId: string, result: RestoreResult, installed: Promise<unknown>): void {
    for (const each of this.#pending.values())
      if (each.hasBegun && each.job.job === 'restore' && each.job.request.cellId === cellId)
        each.switched = installed.then(
          () => result,
          () => undefined,
        )
  }

  /** The process has ended, and another one will take its place. */
  processEnded(): void {
    for (const [id, job] of this.#pending) this.#unlessSwitched(job, () => this.#interrupted(id, job))
  }

  rejectAll(error: CellError): void {
    for (const job of this.#pending.values()) this.#unlessSwitched(job, () => this.#giveUp(job, error))
  }

  /** Of those that are left, nobody knows whether their switch will be done: the next start clears up after it. */
  abandonAll(error: CellError): void {
    for (const { reject } of this.#pending.values()) reject(error)
  }

  #interrupted(id: number, job: PendingJob): void {
    const isCrash = job.hasBegun
    job.hasBegun = false
    if (job.refusal !== undefined) job.reject(job.refusal)
    else if (job.options.signal?.aborted === true) job.reject(job.options.signal.reason)
    else if (isCrash && ++job.crashes === CRASHES_MAX) this.#giveUpLogged(job, endedAgain())
    // If the next process is ready already, it did not get this one.
    else this.#parts.send({ type: 'job', id, job: job.job })
  }

  /** For a job whose process has ended: answers it if its switch is done, and otherwise goes on, once. */
  #unlessSwitched(job: PendingJob, goOn: () => void): void {
    if (job.switched === undefined) {
      goOn()
      return
    }
    const isWaiting = job.goOn !== undefined
    // The next process may have ended too, or the store is being closed.
    job.goOn = goOn
    if (!isWaiting) void this.#answerSwitched(job, job.switched)
  }

  async #answerSwitched(job: PendingJob, switched: Promise<RestoreResult | undefined>): Promise<void> {
    const result = await switched
    const { goOn } = job
    job.switched = undefined
    job.goOn = undefined
    if (result === undefined) {
      goOn?.()
      return
    }
    await this.#clearUp(job.job)
    job.resolve(result)
  }

  /** Resolves once every job was answered. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await this.#idle.promise
  }

  /** Without a process, nothing of the job runs, unless it is a switch. Otherwise its answer comes once it has cleaned up. */
  #abort(id: number, signal: AbortSignal | undefined): void {
    const job = this.#pending.get(id)
    if (!this.#parts.send({ type: 'abort', id }) && job?.switched === undefined) job?.reject(signal?.reason)
  }

  #giveUpLogged(job: PendingJob, err: CellError): void {
    const { cellId } = job.job.request
    this.#parts.log.error({ cellId, job: job.job.job, err }, 'a job of the archiver was given up')
    this.#giveUp(job, err)
  }

  #giveUp({ job, reject }: PendingJob, error: CellError): void {
    void this.#clearUp(job)
    reject(error)
  }

  /** What the archiver would have said at the end of the job. The workers may have ended too. */
  async #clearUp({ job, request: { cellId } }: ArchiverJob): Promise<void> {
    const { cells, log } = this.#parts
    if (job === 'verify' || job === 'branch' || job === 'settle') return
    try {
      if (job === 'restore') return await cells.endRestore(cellId)
      await cells.failed(cellId)
      await cells.endBackup(cellId)
    } catch (err) {
      log.warn({ cellId, err }, 'could not end a backup of an archiver that has ended')
    }
  }
}

function endedAgain(): CellError {
  return new CellError(
    'busy',
    `The archiver process ended ${CRASHES_MAX} times during this backup or restore. Try again.`,
    { retryAfterMs: 5_000 },
  )
}
