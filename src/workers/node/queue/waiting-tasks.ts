/** Tasks of a slot that wait for its next worker. When they wake, they look again for the slot that has their cell. */
export class WaitingTasks {
  readonly #wake = new Set<() => void>()

  get size(): number {
    return this.#wake.size
  }

  /** Resolves when the task is woken. @throws the signal's reason */
  wait(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const abandon = () => reject(signal?.reason)
    if (signal?.aborted === true) abandon()
    this.#wake.add(resolve)
    signal?.addEventListener('abort', abandon, { once: true })
    return promise.finally(() => {
      this.#wake.delete(resolve)
      signal?.removeEventListener('abort', abandon)
    })
  }

  wakeAll(): void {
    for (const wake of this.#wake) wake()
  }
}
