/**
 * Keeps the entries that were used last, up to a bound. It has two generations: a hit in the young one moves nothing, and
 * what nobody used while a generation filled up is dropped with the old one.
 */
export class LruCache<T> {
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  readonly #generationMax: number

  constructor(max: number) {
    this.#generationMax = Math.max(1, Math.floor(max / 2))
  }

  /** An entry that is in both generations counts twice. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  get(key: string): T | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, entry: T): void {
    if (this.#young.size >= this.#generationMax && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, entry)
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }
}
