/**
 * Keeps entries that were used lately, up to a bound, so that ad-hoc SQL texts can't grow a cell's memory. Two
 * generations: a hit in the young one moves nothing, and what was not used while a generation filled up is dropped whole.
 */
export class LruCache<T> {
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  readonly #generationMax: number

  constructor(max: number) {
    this.#generationMax = Math.max(1, Math.floor(max / 2))
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  get(sql: string): T | undefined {
    const young = this.#young.get(sql)
    if (young !== undefined) return young
    const old = this.#old.get(sql)
    if (old !== undefined) this.set(sql, old)
    return old
  }

  set(sql: string, entry: T): void {
    if (this.#young.size >= this.#generationMax && !this.#young.has(sql)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(sql, entry)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }
}
