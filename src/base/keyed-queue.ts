/** Lets one piece of work a cell run at a time, in the order they came. */
export class CellQueues {
  /** Per cell, the last that waits. */
  readonly #last = new Map<string, Promise<void>>()
  readonly #onIdle: (cellId: string) => void

  /** @param onIdle called when nothing more waits for a cell */
  constructor(onIdle: (cellId: string) => void) {
    this.#onIdle = onIdle
  }

  has(cellId: string): boolean {
    return this.#last.has(cellId)
  }

  async run<T>(cellId: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#last.get(cellId) ?? Promise.resolve()).then(work)
    const settled = mine.then(
      () => {},
      () => {},
    )
    this.#last.set(cellId, settled)
    try {
      return await mine
    } finally {
      if (this.#last.get(cellId) === settled) {
        this.#last.delete(cellId)
        this.#onIdle(cellId)
      }
    }
  }

  /** Resolves once nothing runs or waits. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values())
  }
}
