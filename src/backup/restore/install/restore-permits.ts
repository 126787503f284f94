import type { RestoreOptions } from '../../versions/backup-types.ts'

type Permit = NonNullable<RestoreOptions['permit']>

/** The permits of the restores under way. A cell has at most one that was requested. */
export class RestorePermits {
  readonly #permits = new Map<string, Permit>()

  async during<T>(cellId: string, permit: Permit | undefined, restore: () => Promise<T>): Promise<T> {
    if (permit === undefined) return await restore()
    this.#permits.set(cellId, permit)
    try {
      return await restore()
    } finally {
      this.#permits.delete(cellId)
    }
  }

  /** The cell's restore is built. @throws what its permit refuses it with */
  checkBuilt(cellId: string, bytes: number): void {
    this.#permits.get(cellId)?.checkBuilt?.(bytes)
  }
}
