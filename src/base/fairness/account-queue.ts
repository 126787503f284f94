/** What waits, of each account in its order. Accounts take turns, however much each has waiting. */
export class AccountQueue<T> {
  /** By account, in the order of their next turns. */
  readonly #accounts = new Map<string, Set<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  sizeOf(account: string): number {
    return this.#accounts.get(account)?.size ?? 0
  }

  add(account: string, item: T): void {
    const own = this.#accounts.get(account)
    if (own?.has(item)) return
    if (own === undefined) this.#accounts.set(account, new Set([item]))
    else own.add(item)
    this.#size++
  }

  /** @returns false if it did not wait */
  remove(account: string, item: T): boolean {
    const own = this.#accounts.get(account)
    if (own?.delete(item) !== true) return false
    if (own.size === 0) this.#accounts.delete(account)
    this.#size--
    return true
  }

  /**
   * Removes and returns the next item; its account's next turn comes after those of all others.
   *
   * @param mayHave whether the account may have a turn now
   * @param mayBegin whether this item of it may
   */
  take(
    mayHave: (account: string) => boolean = () => true,
    mayBegin: (item: T) => boolean = () => true,
  ): T | undefined {
    for (const [account, own] of this.#accounts) {
      const item = mayHave(account) ? first(own, mayBegin) : undefined
      if (item === undefined) continue
      this.#accounts.delete(account)
      this.#accounts.set(account, own)
      this.remove(account, item)
      return item
    }
    return undefined
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const own of this.#accounts.values()) yield* own
  }
}

function first<T>(items: Iterable<T>, may: (item: T) => boolean): T | undefined {
  for (const item of items) if (may(item)) return item
  return undefined
}
