import type { LruCache } from '../lru-cache.ts'

/** Reads that are under way, shared by all who ask, and the results of earlier ones. A failed read is not kept. */
export class SharedReads<T> {
  readonly #kept: LruCache<T>
  readonly #underWay = new Map<string, Promise<T>>()

  constructor(kept: LruCache<T>) {
    this.#kept = kept
  }

  async get(key: string, read: () => Promise<T>): Promise<T> {
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const underWay = this.#underWay.get(key) ?? this.#begin(key, read)
    return await underWay
  }

  async #begin(key: string, read: () => Promise<T>): Promise<T> {
    const reading = read()
    this.#underWay.set(key, reading)
    try {
      const result = await reading
      this.#kept.set(key, result)
      return result
    } finally {
      this.#underWay.delete(key)
    }
  }
}
