import { AccountQueue } from '../../base/fairness/account-queue.ts'
import { type Job, NEEDS, type Need } from './job.ts'

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
