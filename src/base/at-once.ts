/** Runs so much work at a time; the rest waits in the order in which it came. */
export class AtOnce {
  readonly #max: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(max: number) {
    this.#max = max
  }

  /** @throws what `work` throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    // Whoever ends gives its place to the next one.
    if (this.#running >= this.#max) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}
