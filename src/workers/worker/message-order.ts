/** Keeps messages in their order while one of them is prepared: a task that came after a batch must not overtake it. */
export class MessageOrder<Message> {
  readonly #handle: (message: Message) => void
  /** Those that came while one before them was prepared. */
  #waiting: Message[] | undefined

  constructor(handle: (message: Message) => void) {
    this.#handle = handle
  }

  take(message: Message): void {
    if (this.#waiting === undefined) this.#handle(message)
    else this.#waiting.push(message)
  }

  /** Runs `work` once it is prepared, and then handles what came meanwhile. @returns what the work returns */
  async after<T>(prepared: Promise<unknown>, work: () => T | Promise<T>): Promise<T> {
    this.#waiting = []
    try {
      await prepared
      return await this.#begin(work)
    } finally {
      this.#goOn()
    }
  }

  /** What it does at once comes before what waits; what it waits for does not hold that up. */
  #begin<T>(work: () => T): T {
    try {
      return work()
    } finally {
      this.#goOn()
    }
  }

  #goOn(): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    for (const message of waiting ?? []) this.take(message)
  }
}
