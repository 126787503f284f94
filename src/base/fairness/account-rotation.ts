import { AccountQueue } from './account-queue.ts'

/** Turns of accounts that go on from one round to the next: whose last turn is longest ago has the first one. */
export class AccountRotation {
  /** Accounts in the order of their last turns. */
  readonly #hadTurn = new Set<string>()

  /** What waits in this round. Accounts of which nothing waits are forgotten. */
  round<T>(items: Iterable<T>, accountOf: (item: T) => string): AccountQueue<T> {
    const byAccount = Map.groupBy(items, accountOf)
    const late = [...this.#hadTurn].filter((account) => byAccount.has(account))
    const early = [...byAccount.keys()].filter((account) => !this.#hadTurn.has(account))
    const waiting = new AccountQueue<T>()
    for (const account of [...early, ...late])
      for (const item of byAccount.get(account) ?? []) waiting.add(account, item)
    this.#hadTurn.clear()
    for (const account of late) this.#hadTurn.add(account)
    return waiting
  }

  hadTurn(account: string): void {
    this.#hadTurn.delete(account)
    this.#hadTurn.add(account)
  }
}
