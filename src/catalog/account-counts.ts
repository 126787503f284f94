/** More accounts than this, and all are counted again. */
const ACCOUNTS_MAX = 10_000

/** How many of something each account has in the catalog: counted once, and kept up to date from then on. */
export class AccountCounts {
  readonly #count: (accountId: string) => number
  readonly #counts = new Map<string, number>()

  constructor(count: (accountId: string) => number) {
    this.#count = count
  }

  of(accountId: string): number {
    let count = this.#counts.get(accountId)
    if (count === undefined) {
      count = this.#count(accountId)
      if (this.#counts.size >= ACCOUNTS_MAX) this.#counts.clear()
      this.#counts.set(accountId, count)
    }
    return count
  }

  /** After a change of the catalog. */
  changed(accountId: string, by: number): void {
    const count = this.#counts.get(accountId)
    if (count !== undefined) this.#counts.set(accountId, count + by)
  }
}
