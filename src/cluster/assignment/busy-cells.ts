import type { Clock } from '../../base/clock.ts'
import { rangeOf } from '../../catalog/assignment/assignment.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'

/** To sort thousands of cells takes its time. */
const LOOK_EVERY_MS = 5_000

/** The cells of this node that were used of late. */
export class BusyCells {
  readonly #ownership: Pick<Ownership, 'isHere'>
  readonly #busiest: () => { cellId: string }[]
  readonly #clock: Clock
  #cells: readonly string[] = []
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(ownership: Pick<Ownership, 'isHere'>, busiest: () => { cellId: string }[], clock: Clock) {
    this.#ownership = ownership
    this.#busiest = busiest
    this.#clock = clock
  }

  cells(): readonly string[] {
    const now = this.#clock.monotonic()
    if (now - this.#lookedAt < LOOK_EVERY_MS) return this.#cells
    this.#lookedAt = now
    this.#cells = this.#busiest().flatMap(({ cellId }) => (this.#ownership.isHere(cellId) ? [cellId] : []))
    return this.#cells
  }

  /** Those of some ranges. */
  in(ranges: readonly number[]): string[] {
    const some = new Set(ranges)
    return this.cells().filter((cellId) => some.has(rangeOf(cellId)))
  }
}
