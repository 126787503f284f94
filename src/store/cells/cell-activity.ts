import type { Clock } from '../../base/clock.ts'

export interface BusyCell {
  cellId: string
  /** Operations in the last one to two minutes. */
  operations: number
}

const WINDOW_MS = 60_000
/** Cells that one window counts. A window that is full ends early: of so many cells, none was busy for long. */
const CELLS_MAX = 10_000

/** How many operations cells have had lately: enough to tell the busiest, in bounded memory. */
export class CellActivity {
  readonly #clock: Clock
  #counts = new Map<string, number>()
  #before = new Map<string, number>()
  #startedAt: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedAt = clock.monotonic()
  }

  count(cellId: string): void {
    this.#follow()
    const known = this.#counts.get(cellId)
    if (known === undefined && this.#counts.size >= CELLS_MAX) this.#turn()
    this.#counts.set(cellId, (known ?? 0) + 1)
  }

  /** The cells with the most operations, the busiest first. */
  busiest(most: number): BusyCell[] {
    this.#follow()
    const cells = new Map(this.#before)
    for (const [cellId, count] of this.#counts) cells.set(cellId, (cells.get(cellId) ?? 0) + count)
    return [...cells]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(([cellId, operations]) => ({ cellId, operations }))
  }

  #follow(): void {
    const age = this.#clock.monotonic() - this.#startedAt
    if (age < WINDOW_MS) return
    this.#turn()
    // Nothing was counted for so long that the window before is over too.
    if (age >= 2 * WINDOW_MS) this.#before = new Map()
  }

  #turn(): void {
    this.#before = this.#counts
    this.#counts = new Map()
    this.#startedAt = this.#clock.monotonic()
  }
}
