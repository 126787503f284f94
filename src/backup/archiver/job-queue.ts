import type { Clock, Timer } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import { type ArchiverLoad, Job, type JobRequest, LANES, type Lane, type Need, WaitingJobs } from './job.ts'

export interface JobQueueLimits {
  /** Jobs of each lane that run at the same time. Small ones wait for answers most of their time. */
  atOnce: Readonly<Record<Lane, number>>
  /** How many of them may be heavy. All of these but one may be large, so that large jobs hold up no others. */
  heavyAtOnce: Readonly<Record<Lane, number>>
  /** Jobs that may wait, of one account and in all. */
  waitingPerAccountMax: number
  waitingMax: number
  /** Milliseconds that a job may wait for its turn. */
  waitMs: number
  /** Milliseconds that a job may take from its turn on. */
  runMs: number
}

export const DEFAULT_JOB_LIMITS: Omit<JobQueueLimits, 'atOnce' | 'heavyAtOnce'> = {
  waitingPerAccountMax: 2_000,
  waitingMax: 20_000,
  waitMs: 30 * 60_000,
  runMs: 24 * 3_600_000,
}

/** When to try again after a refusal. */
const RETRY_MS = 5_000

/** What a job gets for its run. */
export interface Turn {
  /** Aborts with the caller's signal, at the job's own deadline, and at that of {@link JobQueue.stop}. */
  signal: AbortSignal
  /**
   * Tells how much the job will move, once that is known. A heavy job may have to wait again: small ones are not stuck
   * behind large ones, and the memory of all is bounded.
   */
  willMove(bytes: number): Promise<void>
}

/**
 * The one queue for backups and restores: bounded, fair, and cancellable. The more needed job comes first, and accounts
 * take turns; none has all slots of a lane, or all for heavy jobs, for what it asks. One job of a cell runs at a time. A job may wait for so long, and run for so long: each of its calls has a
 * deadline, but there can be any number of calls (invariant 13).
 */
export class JobQueue {
  readonly #limits: JobQueueLimits
  readonly #clock: Clock
  readonly #waiting: Record<Lane, WaitingJobs>
  readonly #running: Record<Lane, Set<Job>> = {
    backup: new Set(),
    restore: new Set(),
    verify: new Set(),
  }
  /** Cells of jobs that have begun. */
  readonly #cells = new Set<string>()
  readonly #jobs = new Set<Job>()
  readonly #abort = new AbortController()
  #stopping = false
  #idle = Promise.withResolvers<void>()

  constructor(limits: JobQueueLimits, clock: Clock) {
    this.#limits = limits
    this.#clock = clock
    this.#waiting = { backup: new WaitingJobs(), restore: new WaitingJobs(), verify: new WaitingJobs() }
  }

  /** Of jobs that wait or run. */
  get cells(): string[] {
    return [...this.#jobs].map(({ request }) => request.cellId)
  }

  get load(): ArchiverLoad {
    const of = (lane: Lane) => ({ waiting: this.#waiting[lane].size, running: this.#running[lane].size })
    return { restore: of('restore'), backup: of('backup'), verify: of('verify') }
  }

  /** @throws `store_closed` once {@link stop} was called */
  assertRunning(): void {
    if (this.#stopping) throw storeClosed()
  }

  /**
   * Runs `work` when it is the job's turn.
   *
   * @throws `rate_limited` or `busy` if too many jobs wait; always a `CellError`: other errors of `work` are translated
   */
  async run<T>(
    request: JobRequest,
    caller: AbortSignal | undefined,
    work: (turn: Turn) => Promise<T>,
  ): Promise<T> {
    this.assertRunning()
    this.#assertRoom(request)
    const overdue = new AbortController()
    const ends = [this.#abort.signal, overdue.signal]
    const signal = AbortSignal.any(caller === undefined ? ends : [caller, ...ends])
    const job = new Job(request)
    this.#jobs.add(job)
    let deadline: Timer | undefined
    try {
      await this.#turnOf(job, signal)
      const { runMs } = this.#limits
      deadline = this.#clock.setTimer(() => overdue.abort(tookTooLong(request.lane, runMs)), runMs)
      return await work({ signal, willMove: (bytes) => this.#willMove(job, bytes, signal) })
    } catch (error) {
      throw toBackupError(error, signal)
    } finally {
      deadline?.cancel()
      this.#end(job)
    }
  }

  /** Somebody needs the jobs of a cell more than before. */
  raise(cellId: string, need: Need): void {
    for (const lane of LANES) {
      this.#waiting[lane].raise(cellId, need)
      // It may have to wait again.
      for (const job of this.#running[lane]) if (job.request.cellId === cellId) job.raise(need)
      this.#fill(lane)
    }
  }

  /** Takes no more jobs. Those that it has may end until the deadline, and are cancelled then. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = true
    const abort = () => this.#abort.abort(storeClosed())
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    while (this.#jobs.size > 0) await this.#idle.promise
    deadline.removeEventListener('abort', abort)
  }

  #assertRoom({ account }: JobRequest): void {
    const { waitingMax, waitingPerAccountMax } = this.#limits
    const waiting = (of: (jobs: WaitingJobs) => number) =>
      LANES.reduce((sum, lane) => sum + of(this.#waiting[lane]), 0)
    if (waiting((jobs) => jobs.sizeOf(account)) >= waitingPerAccountMax) {
      throw new CellError(
        'rate_limited',
        `${waitingPerAccountMax} backups and restores of the account wait already, which is the most. Try again later.`,
        { limit: waitingPerAccountMax, retryAfterMs: RETRY_MS },
      )
    }
    if (waiting((jobs) => jobs.size) < waitingMax) return
    throw new CellError(
      'busy',
      `${waitingMax} backups and restores wait already, which is the most. Try again later.`,
      { limit: waitingMax, retryAfterMs: RETRY_MS },
    )
  }

  /** Resolves at the job's turn. @throws the signal's reason if it aborts before that; `busy` if it waits too long */
  async #turnOf(job: Job, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { lane } = job.request
    const waiting = this.#waiting[lane]
    const turn = Promise.withResolvers<void>()
    let isWaiting = true
    job.begin = () => {
      isWaiting = false
      turn.resolve()
    }
    waiting.add(job)
    this.#fill(lane)
    if (!isWaiting) return
    const giveUp = (reason: unknown) => {
      waiting.remove(job)
      turn.reject(reason)
    }
    const abandon = () => giveUp(signal.reason)
    signal.addEventListener('abort', abandon, { once: true })
    const timer = this.#clock.setTimer(() => giveUp(waitedTooLong()), this.#limits.waitMs)
    await turn.promise.finally(() => {
      timer.cancel()
      signal.removeEventListener('abort', abandon)
    })
  }

  /** Gives a lane's free slots to the next jobs. */
  #fill(lane: Lane): void {
    const running = this.#running[lane]
    while (running.size < this.#limits.atOnce[lane]) {
      const hasRoom = this.#room(lane)
      const take = (share: number) =>
        this.#waiting[lane].take((job) => {
          const isCellFree = !job.isExclusive || job.hasBegun || !this.#cells.has(job.request.cellId)
          const isWithinShare = this.#isWithinShare(lane, job, this.#limits.atOnce[lane], () => true, share)
          return isCellFree && isWithinShare && hasRoom(job, share)
        })
      // An account has more than half of the slots for its background jobs only if nobody else wants them.
      const next = take(1 / 2) ?? take(1)
      if (next === undefined) return
      running.add(next)
      if (next.isExclusive) this.#cells.add(next.request.cellId)
      next.hasBegun = true
      next.begin()
    }
  }

  /** The jobs of an account leave one of `slots` to other accounts: a job may take as long as its cell does. */
  #isWithinShare(
    lane: Lane,
    { need, request: { account } }: Job,
    slots: number,
    takesOne: (job: Job) => boolean,
    backgroundShare: number,
  ): boolean {
    if (need === 'waiting' || account === '') return true
    const own = [...this.#running[lane]].filter((job) => job.request.account === account && takesOne(job))
    const most = need === 'background' ? Math.min(slots - 1, slots * backgroundShare) : slots - 1
    return own.length < Math.max(1, most)
  }

  /** Which jobs may run next to those of the lane that run now. */
  #room(lane: Lane): (job: Job, backgroundShare?: number) => boolean {
    const running = [...this.#running[lane]]
    const heavyMax = this.#limits.heavyAtOnce[lane]
    const heavy = running.filter(isHeavy).length
    const large = running.filter(isLarge).length
    const largeMax = Math.max(1, heavyMax - 1)
    // What nobody waits for also leaves room for a large cell that a request waits for.
    const idleMax = lane === 'restore' ? Math.max(1, largeMax - 1) : largeMax
    return (job, share = 1) => {
      const mayBeHeavy = () => heavy < heavyMax && this.#isWithinShare(lane, job, heavyMax, isHeavy, share)
      const mayBeLarge = () => {
        const places = job.need === 'background' ? idleMax : largeMax
        // Half of its places, while others want them; alone, an account leaves the one for what is asked for.
        const shared = share < 1 ? places : largeMax
        return large < places && this.#isWithinShare(lane, job, shared, isLarge, share)
      }
      return (!job.isHeavy || mayBeHeavy()) && (!job.isLarge || mayBeLarge())
    }
  }

  async #willMove(job: Job, bytes: number, signal: AbortSignal): Promise<void> {
    if (bytes <= job.bytes) return
    const { lane } = job.request
    this.#running[lane].delete(job)
    job.bytes = bytes
    if (this.#room(lane)(job)) {
      this.#running[lane].add(job)
      return
    }
    await this.#turnOf(job, signal)
  }

  #end(job: Job): void {
    this.#jobs.delete(job)
    this.#running[job.request.lane].delete(job)
    if (job.hasBegun && job.isExclusive) this.#cells.delete(job.request.cellId)
    // The cell's other job may be in the other lane.
    for (const lane of LANES) this.#fill(lane)
    this.#idle.resolve()
    this.#idle = Promise.withResolvers()
  }
}

const isHeavy = (job: Job) => job.isHeavy
const isLarge = (job: Job) => job.isLarge

function storeClosed(): CellError {
  return new CellError('store_closed', 'The store is closed.')
}

function waitedTooLong(): CellError {
  return new CellError('busy', 'The backup or restore waited too long for its turn. Try again later.', {
    retryAfterMs: RETRY_MS,
  })
}

const NAMES: Readonly<Record<Lane, string>> = {
  restore: 'restore',
  backup: 'backup',
  verify: 'verification',
}

function tookTooLong(lane: Lane, runMs: number): CellError {
  return new CellError(
    'busy',
    `The ${NAMES[lane]} did not end within ${runMs} ms (backups.deadlineMs) and was cancelled.`,
    { limit: runMs, retryAfterMs: RETRY_MS },
  )
}
