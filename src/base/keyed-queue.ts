/** Runs one piece of work per key at a time, in the order in which they came. */
export class KeyedQueue {
  /** By key, the end of the last one in the queue. */
  readonly #last = new Map<string, Promise<void>>()
  readonly #onIdle: (key: string) => void

  /** @param onIdle called when nothing runs or waits for a key any more */
  constructor(onIdle: (key: string) => void) {
    this.#onIdle = onIdle
  }

  has(key: string): boolean {
    return this.#last.has(key)
  }

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
      if (this.#last.get(key) === settled) {
        this.#last.delete(key)
        this.#onIdle(key)
      }
    }
  }

  /** Resolves once nothing runs or waits. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values())
  }
}
