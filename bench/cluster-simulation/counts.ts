/** How often something was done, by its kind. */
export class Counts {
  readonly #counts = new Map<string, number>()

  add(kind: string, count = 1): void {
    this.#counts.set(kind, this.of(kind) + count)
  }

  of(kind: string): number {
    return this.#counts.get(kind) ?? 0
  }

  /** Of all kinds that begin so. */
  sum(begin = ''): number {
    let sum = 0
    for (const [kind, count] of this.#counts) if (kind.startsWith(begin)) sum += count
    return sum
  }

  /** What was counted since the last call. */
  take(): Counts {
    const taken = new Counts()
    for (const [kind, count] of this.#counts) taken.add(kind, count)
    this.#counts.clear()
    return taken
  }

  toString(): string {
    const kinds = [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1))
    return kinds.map(([kind, count]) => `${kind} ${count.toLocaleString('en')}`).join(', ') || 'none'
  }
}
