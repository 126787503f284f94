interface AccountTime {
  /** Milliseconds of the worker, on a scale that all accounts share. */
  used: number
  /** Milliseconds that an operation took lately; 0 if they were too short to be measured. */
  perOperationMs: number
}

/** What an operation counts at least: of many small ones, each takes about so long. */
const OPERATION_MS = 0.05
/** A batch takes as many operations of an account as it probably has time for, and as many again. */
const SLICES = 2

/**
 * Whose turn it is at a worker: the account's that has had the least of its time. Fair queueing by time, not by operations:
 * an account with slow operations gets no more of the worker than its neighbours with fast ones. An account that comes
 * back after a pause starts level with the one that has had the least: nobody saves time up.
 */
export class AccountTurns {
  readonly #sliceMs: number
  readonly #accounts = new Map<string, AccountTime>()
  /** What the account that has had the least had, when a batch was made last. */
  #floor = 0

  /** @param sliceMs milliseconds that a batch may take */
  constructor(sliceMs: number) {
    this.#sliceMs = sliceMs
  }

  /** Of the accounts that wait, the one whose turn it is comes first. */
  inOrder(waiting: Iterable<string>): string[] {
    const accounts = [...waiting]
    const used = new Map(accounts.map((account) => [account, this.#usedBy(account)]))
    this.#floor = Math.min(...(used.size > 0 ? used.values() : [this.#floor]))
    return accounts.sort((a, b) => (used.get(a) as number) - (used.get(b) as number))
  }

  /** How many operations of an account a batch takes. */
  operationsMax(accountId: string): number {
    const { perOperationMs = 0 } = this.#accounts.get(accountId) ?? {}
    return perOperationMs === 0
      ? Infinity
      : Math.max(1, Math.floor((SLICES * this.#sliceMs) / perOperationMs))
  }

  /** @param ms what the operations took, beyond what each of them counts anyway */
  charge(accountId: string, operations: number, ms: number): void {
    const { perOperationMs = 0 } = this.#accounts.get(accountId) ?? {}
    this.#accounts.set(accountId, {
      used: this.#usedBy(accountId) + operations * OPERATION_MS + ms,
      perOperationMs: operations === 0 ? perOperationMs : (perOperationMs + ms / operations) / 2,
    })
  }

  /** Nobody waits: there is nothing to be fair about. */
  reset(): void {
    this.#accounts.clear()
    this.#floor = 0
  }

  #usedBy(accountId: string): number {
    return Math.max(this.#accounts.get(accountId)?.used ?? 0, this.#floor)
  }
}
