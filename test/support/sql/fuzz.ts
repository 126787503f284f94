/** Generous: the count is the caller's choice. */
export const FUZZ_TIMEOUT_MS = 3_600_000

/** How many cases a generated test runs: `CELLSTORE_FUZZ_COUNT`, or a number that takes a few seconds. */
export function fuzzCount(): number {
  const { CELLSTORE_FUZZ_COUNT } = process.env
  return Number(CELLSTORE_FUZZ_COUNT ?? 20_000)
}

/** A source of chance that repeats itself for the same seed; the seed is printed. `CELLSTORE_FUZZ_SEED` sets it. */
export function fuzzRandom(test: string): Random {
  const { CELLSTORE_FUZZ_SEED } = process.env
  const seed = Number(CELLSTORE_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31))
  console.info(`${test}: CELLSTORE_FUZZ_SEED=${seed} CELLSTORE_FUZZ_COUNT=${fuzzCount()}`)
  return new Random(seed)
}

/** Mulberry32: small, and good enough to choose test cases with. */
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
