/**
 * Keeps the entries that were used last, up to a bound. It has two generations: a hit in the young one moves nothing, and
 * what nobody used while a generation filled up is dropped with the old one. An entry heavier than a generation is not kept.
 */
export class LruCache<T> {
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  readonly #generationMax: number
  readonly #weigh: (key: string, entry: T) => number
  /** Of the young entries. */
  #weight = 0

  /**
   * @param max the weight of all entries together
   * @param weigh an entry's weight; without it, each weighs 1
   */
  constructor(max: number, weigh: (key: string, entry: T) => number = () => 1) {
    this.#generationMax = Math.max(1, Math.floor(max / 2))
    this.#weigh = weigh
  }

  /** An entry that is in both generations counts twice. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  /** One that is in both generations comes once. */
  get keys(): ReadonlySet<string> {
    return new Set([...this.#young.keys(), ...this.#old.keys()])
  }

  get(key: string): T | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, entry: T): void {
    if (!this.#young.has(key)) {
      const weight = this.#weigh(key, entry)
      if (weight > this.#generationMax) return
      if (this.#weight + weight > this.#generationMax) {
        this.#old = this.#young
        this.#young = new Map()
        this.#weight = 0
      }
      this.#weight += weight
    }
    this.#young.set(key, entry)
  }

  delete(key: string): void {
    const young = this.#young.get(key)
    if (young !== undefined) this.#weight -= this.#weigh(key, young)
    this.#young.delete(key)
    this.#old.delete(key)
  }

  clear(): void {
    this.#young.clear()
    this.#weight = 0
    this.#old.clear()
  }
}
