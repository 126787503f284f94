/** Characters of names that one commit may name. Beyond that it may have touched any. */
const LENGTH_MAX = 32_768
/** What a short name takes in memory, in characters. */
const NAME_LENGTH = 8

/**
 * What the open transaction has touched, by name; null stands for "any of them". What is rolled back was not touched: a
 * mark tells how far to go back.
 */
export class TouchedNames {
  readonly #names: (string | null)[] = []
  readonly #known = new Set<string | null>()
  #length = 0

  add(name: string | null): void {
    if (this.#known.has(null) || this.#known.has(name)) return
    const isTooMuch = name !== null && this.#length + lengthOf(name) > LENGTH_MAX
    const noted = isTooMuch ? null : name
    this.#known.add(noted)
    this.#names.push(noted)
    this.#length += lengthOf(noted)
  }

  get mark(): number {
    return this.#names.length
  }

  rewind(mark: number): void {
    while (this.#names.length > mark) {
      const name = this.#names.pop() as string | null
      this.#known.delete(name)
      this.#length -= lengthOf(name)
    }
  }

  /** Leaves none. @returns null for any */
  take(): readonly string[] | null {
    const names = this.#known.has(null) ? null : (this.#names.slice() as string[])
    this.rewind(0)
    return names
  }
}

function lengthOf(name: string | null): number {
  return name === null ? 0 : name.length + NAME_LENGTH
}
