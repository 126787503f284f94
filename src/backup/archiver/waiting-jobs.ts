import { type Job, NEEDS, type Need } from './job.ts'

/** The jobs that wait for a slot, by need, then by account in turn, then in order. */
export class WaitingJobs {
  readonly #byNeed = new Map<Need, Map<string, Set<Job>>>(NEEDS.map((need) => [need, new Map()]))
  readonly #sizes = new Map<string, number>()
  #size = 0

  get size(): number {
    return this.#size
  }

  sizeOf(account: string): number {
    return this.#sizes.get(account) ?? 0
  }

  add(job: Job): void {
    const { account } = job.request
    const accounts = this.#accounts(job.need)
    const jobs = accounts.get(account)
    if (jobs === undefined) accounts.set(account, new Set([job]))
    else jobs.add(job)
    this.#count(account, 1)
  }

  remove(job: Job): void {
    const { account } = job.request
    const accounts = this.#accounts(job.need)
    const jobs = accounts.get(account)
    if (jobs?.delete(job) !== true) return
    if (jobs.size === 0) accounts.delete(account)
    this.#count(account, -1)
  }

  /** Removes and returns the next job that may run; its account's next turn comes after those of all others. */
  take(mayRun: (job: Job) => boolean): Job | undefined {
    for (const need of NEEDS) {
      const accounts = this.#accounts(need)
      for (const [account, jobs] of accounts) {
        const job = first(jobs, mayRun)
        if (job === undefined) continue
        accounts.delete(account)
        accounts.set(account, jobs)
        this.remove(job)
        return job
      }
    }
    return undefined
  }

  raise(cellId: string, need: Need): void {
    for (const lower of NEEDS.slice(NEEDS.indexOf(need) + 1)) {
      const jobs = [...this.#accounts(lower).values()].flatMap((each) => [...each])
      for (const job of jobs.filter(({ request }) => request.cellId === cellId)) {
        this.remove(job)
        job.need = need
        this.add(job)
      }
    }
  }

  #accounts(need: Need): Map<string, Set<Job>> {
    return this.#byNeed.get(need) as Map<string, Set<Job>>
  }

  #count(account: string, change: 1 | -1): void {
    this.#size += change
    const size = this.sizeOf(account) + change
    if (size === 0) this.#sizes.delete(account)
    else this.#sizes.set(account, size)
  }
}

function first(jobs: Iterable<Job>, mayRun: (job: Job) => boolean): Job | undefined {
  for (const job of jobs) if (mayRun(job)) return job
  return undefined
}
