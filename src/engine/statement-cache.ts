/** Keeps the most recently used entries up to a bound, so that ad-hoc SQL texts can't grow a cell's memory. */
export class StatementCache<T> {
  readonly #entries = new Map<string, T>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  get(sql: string): T | undefined {
    const entry = this.#entries.get(sql)
    if (entry === undefined) return undefined
    this.#entries.delete(sql)
    this.#entries.set(sql, entry)
    return entry
  }

  set(sql: string, entry: T): void {
    if (this.#entries.size >= this.#max) {
      const oldest = this.#entries.keys().next()
      if (!oldest.done) this.#entries.delete(oldest.value)
    }
    this.#entries.set(sql, entry)
  }

  clear(): void {
    this.#entries.clear()
  }
}
