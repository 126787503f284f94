/** What a caller of a flush wants. */
export interface FlushOptions {
  /** It does not wait for others to share its object. */
  isAtOnce?: boolean | undefined
  /** The caller wants to know only of these cells whether they have a history; undefined: of all. */
  about?: readonly string[] | undefined
}

/** What a flush leaves out. */
export interface Flushed {
  /** Cells that have changed but have no history: what they committed is stored with their next version. */
  withoutHistory: readonly string[]
  /** Cells whose files cannot be read: what they committed is stored once they can. */
  unreadable: readonly string[]
}

/** Whether all that a cell had committed is stored with a flush. */
export function holdsAllOf(cellId: string, { withoutHistory, unreadable }: Flushed): boolean {
  return !withoutHistory.includes(cellId) && !unreadable.includes(cellId)
}

interface Flush extends PromiseWithResolvers<Flushed>, FlushOptions {}

/** Callers that wait for what was committed before their call: a look at the cells that begins after it finds all of that. */
export class Flushes {
  /** Since the last look, and those that the look or one before it is for. */
  #waiting: Flush[] = []
  #looked: Flush[] = []

  get isAny(): boolean {
    return this.#waiting.length > 0 || this.#looked.length > 0
  }

  /** Somebody waits who does not want to share an object. */
  get isAtOnce(): boolean {
    return this.#waiting.some(({ isAtOnce }) => isAtOnce)
  }

  add(options: FlushOptions): Promise<Flushed> {
    const flush = { ...Promise.withResolvers<Flushed>(), ...options }
    flush.promise.catch(() => {})
    this.#waiting.push(flush)
    return flush.promise
  }

  /** A look at the cells begins. @returns the cells that callers want to know of; undefined: all */
  look(): string[] | undefined {
    this.#looked.push(...this.#waiting.splice(0))
    const asked = new Set<string>()
    for (const { about } of this.#looked) {
      if (about === undefined) return undefined
      for (const cellId of about) asked.add(cellId)
    }
    return [...asked]
  }

  /** All that the last look has found is stored. */
  stored(flushed: Flushed): void {
    for (const flush of this.#looked.splice(0)) flush.resolve(flushed)
  }

  reject(error: unknown): void {
    for (const flush of [...this.#looked.splice(0), ...this.#waiting.splice(0)]) flush.reject(error)
  }
}
