/** Mulberry32: small, and good enough to choose test cases with. The same seed gives the same choices. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  /** A whole number from 0 up to, not including, the bound. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound)
  }

  /** True with that chance, from 0 to 1. */
  chance(probability: number): boolean {
    return this.below(1_000_000) < probability * 1_000_000
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }
}
