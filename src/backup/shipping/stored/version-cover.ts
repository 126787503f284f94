import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import { parseVersion } from '../../versions/object-keys.ts'
import { isFromBefore } from '../../versions/retention/retention-verdicts.ts'
import { listingOf, type VersionIndex } from '../../versions/version-index.ts'
import type { CellPieces } from '../log/log-manifest.ts'

/**
 * `held`: no moment after the horizon needs the pieces; `needed`: some do, but the newest version holds them, so they will be
 * held; `unheld`: no version holds them.
 */
export type Cover = 'held' | 'needed' | 'unheld'

/** Versions that can be restored. */
interface CoveringVersions {
  newest: ManifestHead
  /** The newest one from before the horizon, or the oldest of all: no moment after the horizon needs an older one. */
  first: ManifestHead
}

/** Tells whether versions hold what is in log objects. Looks at each cell once. */
export class VersionCover {
  readonly #index: VersionIndex
  readonly #horizon: number
  readonly #versions = new Map<string, CoveringVersions | undefined>()

  /** @param horizon epoch milliseconds: later moments stay restorable */
  constructor(index: VersionIndex, horizon: number) {
    this.#index = index
    this.#horizon = horizon
  }

  async of({ cell_id, history, pieces }: CellPieces, options: CallOptions): Promise<Cover> {
    if (!this.#versions.has(cell_id)) this.#versions.set(cell_id, await this.#find(cell_id, options))
    const versions = this.#versions.get(cell_id)
    const last = pieces.at(-1)?.sequence ?? 0
    const to = pieces.at(-1)?.commits.at(-1)?.[1] ?? 0
    if (versions === undefined || !holds(versions.newest, history, last, to)) return 'unheld'
    return holds(versions.first, history, last, to) ? 'held' : 'needed'
  }

  /** The cell has a new version. */
  forget(cellId: string): void {
    this.#versions.delete(cellId)
  }

  async #find(cellId: string, options: CallOptions): Promise<CoveringVersions | undefined> {
    const versions = await this.#index.versions(cellId, options)
    const listing = listingOf(versions)
    const firstOf = async (some: readonly { version: string }[], horizon = Number.POSITIVE_INFINITY) => {
      for (const { version } of some) {
        // Most need no look at their manifests.
        if ((parseVersion(version)?.time ?? 0) > horizon) continue
        const head = await this.#index.restorable(version, cellId, listing, options)
        const createdAt = Date.parse(head?.created_at ?? '')
        if (head !== undefined && isFromBefore({ createdAt, at: timeOf(head) }, horizon)) return head
      }
      return undefined
    }
    const newest = await firstOf(versions)
    if (newest === undefined) return undefined
    const old = await firstOf(versions, this.#horizon)
    return { newest, first: old ?? (await firstOf(versions.toReversed())) ?? newest }
  }
}

/** A version of another history counts by its time: a history ends before the version that begins the next one. */
function holds(head: ManifestHead, history: string, sequence: number, to: number): boolean {
  return head.log?.history === history ? head.log.sequence >= sequence : timeOf(head) > to
}

/** On the cell's line of time. */
function timeOf({ log, created_at }: ManifestHead): number {
  return log?.at ?? Date.parse(created_at)
}
