import type { ManifestHead } from '../archive/manifest.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { listingOf, type VersionIndex } from '../versions/version-index.ts'
import type { CellPieces } from './log-manifest.ts'

/** Tells whether versions hold what is in log objects. Looks at each cell once. */
export class VersionCover {
  readonly #index: VersionIndex
  readonly #exists: (cellId: string) => Promise<boolean>
  readonly #newest = new Map<string, ManifestHead | undefined>()

  /** @param exists whether the catalog has the cell, and it is not deleted */
  constructor(index: VersionIndex, exists: (cellId: string) => Promise<boolean>) {
    this.#index = index
    this.#exists = exists
  }

  /**
   * Whether the newest version of the cell that can be restored holds the pieces. Those of a deleted cell go with their age.
   *
   * @param to nothing in the pieces was committed later, in epoch milliseconds
   */
  async covers({ cell_id, history, pieces }: CellPieces, to: number, options: CallOptions): Promise<boolean> {
    const newest = await this.#newestOf(cell_id, options)
    if (newest !== undefined && holds(newest, history, pieces.at(-1)?.sequence ?? 0, to)) return true
    return !(await this.#exists(cell_id))
  }

  async #newestOf(cellId: string, options: CallOptions): Promise<ManifestHead | undefined> {
    if (!this.#newest.has(cellId)) this.#newest.set(cellId, await this.#findNewest(cellId, options))
    return this.#newest.get(cellId)
  }

  async #findNewest(cellId: string, options: CallOptions): Promise<ManifestHead | undefined> {
    const versions = await this.#index.versions(cellId, options)
    const listing = listingOf(versions)
    for (const { version } of versions) {
      const head = await this.#index.restorable(version, cellId, listing, options)
      if (head !== undefined) return head
    }
    return undefined
  }
}

/** A version of another history counts by its time: a history ends before the version that begins the next one. */
function holds({ log, created_at }: ManifestHead, history: string, sequence: number, to: number): boolean {
  return log?.history === history ? log.sequence >= sequence : (log?.at ?? Date.parse(created_at)) > to
}
