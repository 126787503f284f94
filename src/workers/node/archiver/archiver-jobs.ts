import { toBackupError } from '../../../backup/archive/backup-errors.ts'
import type { JobOptions } from '../../../backup/archiver/archiver.ts'
import type { ArchiverLoad, Lane, Need } from '../../../backup/archiver/job.ts'
import type { RestoreResult } from '../../../backup/versions/backup-types.ts'
import type { Log } from '../../../base/log.ts'
import { CellError } from '../../../errors.ts'
import type { ArchiverJob, FromArchiver, ServedCells, ToArchiver } from '../../protocol/archiver-protocol.ts'
import { type Answer, type OpenCall, OpenCalls } from '../../protocol/open-calls.ts'

/** A new cell from a backup takes its turn among the restores. */
const LANE_OF: Readonly<Record<ArchiverJob['job'], Lane>> = {
  restore: 'restore',
  branch: 'restore',
  backup: 'backup',
  verify: 'verify',
  prepare: 'restore',
  settle: 'backup',
}

/** A job that has ended so many processes is given up: it may be the cause. */
const CRASHES_MAX = 3

interface JobState {
  job: ArchiverJob
  options: JobOptions
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

type PendingJob = OpenCall<unknown, JobState>

export interface ArchiverJobsParts {
  cells: ServedCells
  log: Log
  /** To the present process. False if there is none that is ready: it gets all jobs once it is ({@link ArchiverJobs.sendAll}). */
  send(message: ToArchiver): boolean
}

/** The jobs that an archiver has not answered yet. They outlive its process. */
export class ArchiverJobs {
  readonly #parts: ArchiverJobsParts
  readonly #pending = new OpenCalls<unknown, JobState>()
  #idle = Promise.withResolvers<void>()

  constructor(parts: ArchiverJobsParts) {
    this.#parts = parts
  }

  async run(job: ArchiverJob, options: JobOptions): Promise<unknown> {
    const { signal } = options
    if (signal?.aborted === true) throw toBackupError(signal.reason, signal)
    const pending = this.#pending.begin({ job, options, hasBegun: false, crashes: 0 })
    const abort = () => this.#abort(pending, signal)
    signal?.addEventListener('abort', abort, { once: true })
    try {
      this.#parts.send({ type: 'job', id: pending.id, job })
      return await pending.promise
    } catch (error) {
      throw toBackupError(error, signal)
    } finally {
      signal?.removeEventListener('abort', abort)
      this.#idle.resolve()
      this.#idle = Promise.withResolvers()
    }
  }

  /** The cells of all of them. */
  get cells(): string[] {
    return [...this.#pending].map(({ state }) => state.job.request.cellId)
  }

  get load(): ArchiverLoad {
    const of = (lane: Lane) => {
      const jobs = [...this.#pending].filter(({ state }) => LANE_OF[state.job.job] === lane)
      const running = jobs.filter(({ state }) => state.hasBegun).length
      return { waiting: jobs.length - running, running }
    }
    return { restore: of('restore'), backup: of('backup'), verify: of('verify') }
  }

  /** The cells of the jobs that run. */
  get begunCells(): string[] {
    const begun = [...this.#pending].filter(({ state }) => state.hasBegun)
    return begun.map(({ state }) => state.job.request.cellId)
  }

  raise(cellId: string, need: Need): void {
    for (const { state } of this.#pending)
      if (state.job.request.cellId === cellId) state.job.request.need = need
    this.#parts.send({ type: 'raise', cellId, need })
  }

  /** A new process is ready. */
  sendAll(): void {
    for (const { id, state } of this.#pending)
      if (state.switched === undefined) this.#parts.send({ type: 'job', id, job: state.job })
  }

  /** The archiver asks this process before it touches the cell, so a job without a permit ends before that. */
  begun(id: number): void {
    const state = this.#pending.get(id)?.state
    if (state === undefined) return
    state.hasBegun = true
    state.options.onBegin?.()
    try {
      state.options.permit?.check()
    } catch (refusal) {
      state.refusal = refusal
      this.#parts.send({ type: 'abort', id })
    }
  }

  progress({ id, event }: Extract<FromArchiver, { type: 'progress' }>): void {
    this.#pending.get(id)?.state.options.onProgress?.(event)
  }

  settle(answer: Answer): void {
    const job = this.#pending.get(answer.id)
    if (answer.error !== undefined && job?.state.refusal !== undefined) job.reject(job.state.refusal)
    else this.#pending.settle(answer)
  }

  /**
   * The archiver has asked for the switch to what it has restored. Once that is done, so is the restore: another archiver
   * would take the restored state for the one that it replaces.
   */
  switching(cellId: string, result: RestoreResult, installed: Promise<unknown>): void {
    for (const { state } of this.#pending)
      if (state.hasBegun && state.job.job === 'restore' && state.job.request.cellId === cellId)
        state.switched = installed.then(
          () => result,
          () => undefined,
        )
  }

  /** The process has ended, and another one will take its place. */
  processEnded(): void {
    for (const job of this.#pending) this.#unlessSwitched(job, () => this.#interrupted(job))
  }

  rejectAll(error: CellError): void {
    for (const job of this.#pending) this.#unlessSwitched(job, () => this.#giveUp(job, error))
  }

  /** Of those that are left, nobody knows whether their switch will be done: the next start clears up after it. */
  abandonAll(error: CellError): void {
    this.#pending.rejectAll(error)
  }

  #interrupted(pending: PendingJob): void {
    const { id, state, reject } = pending
    const isCrash = state.hasBegun
    state.hasBegun = false
    if (state.refusal !== undefined) reject(state.refusal)
    else if (state.options.signal?.aborted === true) reject(state.options.signal.reason)
    else if (isCrash && ++state.crashes === CRASHES_MAX) this.#giveUpLogged(pending, endedAgain())
    // If the next process is ready already, it did not get this one.
    else this.#parts.send({ type: 'job', id, job: state.job })
  }

  /** For a job whose process has ended: answers it if its switch is done, and otherwise goes on, once. */
  #unlessSwitched(pending: PendingJob, goOn: () => void): void {
    const { state } = pending
    if (state.switched === undefined) {
      goOn()
      return
    }
    const isWaiting = state.goOn !== undefined
    // The next process may have ended too, or the store is being closed.
    state.goOn = goOn
    if (!isWaiting) void this.#answerSwitched(pending, state.switched)
  }

  async #answerSwitched(
    { state, resolve }: PendingJob,
    switched: Promise<RestoreResult | undefined>,
  ): Promise<void> {
    const result = await switched
    const { goOn } = state
    state.switched = undefined
    state.goOn = undefined
    if (result === undefined) {
      goOn?.()
      return
    }
    await this.#clearUp(state.job)
    resolve(result)
  }

  /** Resolves once every job was answered. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await this.#idle.promise
  }

  /** Without a process, nothing of the job runs, unless it is a switch. Otherwise its answer comes once it has cleaned up. */
  #abort({ id, state, reject }: PendingJob, signal: AbortSignal | undefined): void {
    if (!this.#parts.send({ type: 'abort', id }) && state.switched === undefined) reject(signal?.reason)
  }

  #giveUpLogged(pending: PendingJob, err: CellError): void {
    const { job } = pending.state
    const { cellId } = job.request
    this.#parts.log.error({ cellId, job: job.job, err }, 'a job of the archiver was given up')
    this.#giveUp(pending, err)
  }

  #giveUp({ state, reject }: PendingJob, error: CellError): void {
    void this.#clearUp(state.job)
    reject(error)
  }

  /** What the archiver would have said at the end of the job. The workers may have ended too. */
  async #clearUp({ job, request: { cellId } }: ArchiverJob): Promise<void> {
    const { cells, log } = this.#parts
    if (job !== 'restore' && job !== 'backup') return
    try {
      if (job === 'restore') return await cells.endRestore(cellId)
      await cells.cut(cellId, { method: 'failed', args: [] })
      await cells.cut(cellId, { method: 'end', args: [] })
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
