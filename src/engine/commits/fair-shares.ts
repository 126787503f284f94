/**
 * What the open cells take of something that a process has only so much of, and whose cells they are. While too much is
 * taken, some owner has more than an equal part, and its cells make room: an owner with at most its part never does.
 */
export class FairShares {
  readonly #max: number
  readonly #cells = new Map<string, { owner: string; amount: number }>()
  readonly #owners = new Map<string, { cells: number; amount: number }>()
  #total = 0

  constructor(max: number) {
    this.#max = max
  }

  get isExceeded(): boolean {
    return this.#total > this.#max
  }

  /** Whose cells take most. */
  get heaviest(): string | undefined {
    let most: { owner: string; amount: number } | undefined
    for (const [owner, { amount }] of this.#owners)
      if (most === undefined || amount > most.amount) most = { owner, amount }
    return most?.owner
  }

  /** What an owner's cells take. */
  amountOf(owner: string): number {
    return this.#owners.get(owner)?.amount ?? 0
  }

  /** Notes what a cell takes now. */
  set(cellId: string, owner: string, amount: number): void {
    this.delete(cellId)
    this.#cells.set(cellId, { owner, amount })
    const all = this.#owners.get(owner) ?? { cells: 0, amount: 0 }
    this.#owners.set(owner, { cells: all.cells + 1, amount: all.amount + amount })
    this.#total += amount
  }

  delete(cellId: string): void {
    const cell = this.#cells.get(cellId)
    if (cell === undefined) return
    this.#cells.delete(cellId)
    this.#total -= cell.amount
    const all = this.#owners.get(cell.owner) as { cells: number; amount: number }
    if (all.cells === 1) this.#owners.delete(cell.owner)
    else this.#owners.set(cell.owner, { cells: all.cells - 1, amount: all.amount - cell.amount })
  }

  /** Whether closing the cell helps, and its owner has more than an equal part. */
  mayMakeRoom(cellId: string): boolean {
    const cell = this.#cells.get(cellId)
    if (cell === undefined || cell.amount === 0) return false
    return this.amountOf(cell.owner) > this.#max / this.#owners.size
  }
}
