import { AccountQueue } from '../../base/fairness/account-queue.ts'

/** Backups and restores have slots of their own: many uploads hold up no restore. A verification holds up neither. */
export const LANES = ['restore', 'backup', 'verify'] as const
export type Lane = (typeof LANES)[number]

/** Who needs a job, the most urgent first: a request that waits for its cell, a request for the job itself, or nobody. */
const NEEDS = ['waiting', 'requested', 'background'] as const
export type Need = (typeof NEEDS)[number]

export interface JobRequest {
  lane: Lane
  cellId: string
  /** Whose turn the job takes; the owner's own jobs have the empty one. */
  account: string
  need: Need
}

/** The jobs of each lane. */
export type ArchiverLoad = Readonly<
  Record<'restore' | 'backup' | 'verify', { waiting: number; running: number }>
>

/** A job that moves more bytes takes memory for them: for parts that are compressed and sent side by side. */
const HEAVY_BYTES = 4 * 1_048_576
/** A job that moves as many bytes takes long. */
const LARGE_BYTES = 64 * 1_048_576

/** A backup, a restore or a verification in the queue. */
export class Job {
  readonly request: JobRequest
  need: Need
  /** It has had a turn: no other job of its cell runs until its end. */
  hasBegun = false
  /** What it will move, as far as that is known. */
  bytes = 0
  /** Called at its turn. */
  begin: () => void = () => {}

  /** Somebody needs it as much as this, or more than that already. */
  raise(need: Need): void {
    if (NEEDS.indexOf(need) < NEEDS.indexOf(this.need)) this.need = need
  }

  /** No other job of its cell may run next to it. A verification touches no cell. */
  get isExclusive(): boolean {
    return this.request.lane !== 'verify'
  }

  get isHeavy(): boolean {
    return this.bytes > HEAVY_BYTES
  }

  get isLarge(): boolean {
    return this.bytes >= LARGE_BYTES
  }

  constructor(request: JobRequest) {
    this.request = request
    this.need = request.need
  }
}

/** The jobs that wait for a slot, by need, then by account in turn, then in order. */
export class WaitingJobs {
  readonly #byNeed = new Map<Need, AccountQueue<Job>>(NEEDS.map((need) => [need, new AccountQueue()]))

  get size(): number {
    return this.#sum((jobs) => jobs.size)
  }

  sizeOf(account: string): number {
    return this.#sum((jobs) => jobs.sizeOf(account))
  }

  add(job: Job): void {
    this.#of(job.need).add(job.request.account, job)
  }

  remove(job: Job): void {
    this.#of(job.need).remove(job.request.account, job)
  }

  /** Removes and returns the next job that may run; its account's next turn comes after those of all others. */
  take(mayRun: (job: Job) => boolean): Job | undefined {
    for (const need of NEEDS) {
      const job = this.#of(need).take(undefined, mayRun)
      if (job !== undefined) return job
    }
    return undefined
  }

  raise(cellId: string, need: Need): void {
    for (const lower of NEEDS.slice(NEEDS.indexOf(need) + 1)) {
      const jobs = [...this.#of(lower)].filter(({ request }) => request.cellId === cellId)
      for (const job of jobs) {
        this.remove(job)
        job.need = need
        this.add(job)
      }
    }
  }

  #of(need: Need): AccountQueue<Job> {
    return this.#byNeed.get(need) as AccountQueue<Job>
  }

  #sum(count: (jobs: AccountQueue<Job>) => number): number {
    return NEEDS.reduce((sum, need) => sum + count(this.#of(need)), 0)
  }
}
