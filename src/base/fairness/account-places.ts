import { AccountQueue } from './account-queue.ts'

interface Waiting {
  account: string
  begin(): void
}

/**
 * Places for work that takes a core, and long. Each account has at most one of them at a time: what it has running and waiting
 * holds up no other account, unless as many accounts as there are places do the same. These take turns.
 */
export class AccountPlaces {
  readonly #max: number
  /** Accounts that have a place. */
  readonly #running = new Set<string>()
  readonly #waiting = new AccountQueue<Waiting>()

  constructor(max: number) {
    this.#max = max
  }

  /** @throws the signal's reason if it aborts before the work begins; what `work` throws */
  async run<T>(account: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    await this.#turnOf(account, signal)
    try {
      return await work()
    } finally {
      this.#running.delete(account)
      this.#fill()
    }
  }

  async #turnOf(account: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    const { promise, resolve: begin, reject } = Promise.withResolvers<void>()
    const waiting = { account, begin }
    const abandon = () => {
      if (this.#waiting.remove(account, waiting)) reject(signal?.reason)
    }
    signal?.addEventListener('abort', abandon, { once: true })
    this.#waiting.add(account, waiting)
    this.#fill()
    await promise.finally(() => signal?.removeEventListener('abort', abandon))
  }

  #fill(): void {
    while (this.#running.size < this.#max) {
      const next = this.#waiting.take((account) => !this.#running.has(account))
      if (next === undefined) return
      this.#running.add(next.account)
      next.begin()
    }
  }
}
