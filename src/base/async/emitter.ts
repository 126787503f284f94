/** One event and its listeners, which are called in the order in which they were added. A listener must not throw. */
export class Emitter<Args extends readonly unknown[] = []> {
  readonly #listeners: ((...args: Args) => void)[] = []

  listen(listener: (...args: Args) => void): void {
    this.#listeners.push(listener)
  }

  emit(...args: Args): void {
    for (const listener of this.#listeners) listener(...args)
  }
}
