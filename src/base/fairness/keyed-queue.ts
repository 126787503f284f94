/** Runs one piece of work per key at a time, in the order of the calls. */
export class KeyedQueue {
  /** Per key, the end of the last piece of work that runs or waits. */
  readonly #last = new Map<string, Promise<void>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const settled = mine.then(
      () => {},
      () => {},
    )
    this.#last.set(key, settled)
    try {
      return await mine
    } finally {
      if (this.#last.get(key) === settled) this.#last.delete(key)
    }
  }

  /** Whether something of the key runs or waits. */
  has(key: string): boolean {
    return this.#last.has(key)
  }

  /** Resolves once nothing of the key, or nothing at all, runs or waits. */
  async idle(key?: string): Promise<void> {
    if (key !== undefined) while (this.#last.has(key)) await this.#last.get(key)
    else while (this.#last.size > 0) await Promise.all(this.#last.values())
  }
}
