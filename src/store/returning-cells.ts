import type { CellRegistry } from '../catalog/cell-registry.ts'

/** Cells whose restore brings them back. Each has room in its account's quota before the catalog has it. */
export class ReturningCells {
  readonly #registry: CellRegistry
  readonly #ofAccounts = new Map<string, Set<string>>()

  constructor(registry: CellRegistry) {
    this.#registry = registry
  }

  /** Those that are not in the catalog's count yet. */
  count(accountId: string): number {
    let count = 0
    for (const id of this.#ofAccounts.get(accountId) ?? [])
      if (this.#registry.find(id)?.deletedAt !== null) count++
    return count
  }

  add(accountId: string, cellId: string): void {
    const cells = this.#ofAccounts.get(accountId) ?? new Set()
    this.#ofAccounts.set(accountId, cells.add(cellId))
  }

  delete(accountId: string, cellId: string): void {
    const cells = this.#ofAccounts.get(accountId)
    cells?.delete(cellId)
    if (cells?.size === 0) this.#ofAccounts.delete(accountId)
  }
}
