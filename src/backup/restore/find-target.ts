import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellError } from '../../errors.ts'
import { corrupt } from '../archive/backup-errors.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { CellOwnership } from '../versions/cell-ownership.ts'
import { type Listing, listingOf } from '../versions/version-index.ts'
import { type RestoreTarget, RestoreTargets, type TargetParts, type WantedState } from './restore-target.ts'
import type { CellContents } from './restored-mark.ts'

/** What is restored, and for whom. */
export interface WantedRestore extends Partial<WantedState>, CallOptions {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** Refuses the cell if it is not this account's. */
  accountId?: string | undefined
}

export interface FoundTarget {
  target: RestoreTarget
  targets: RestoreTargets
  listing: Listing
  contents: CellContents
}

/** @throws `cell_not_found` if it may not have the cell; `backup_not_found`, `backup_corrupt` */
export async function findTarget(
  parts: TargetParts,
  cellId: string,
  { record, accountId, version, timestamp, recovers = false, isBehind, signal }: WantedRestore,
): Promise<FoundTarget> {
  const { index } = parts
  const ownership = new CellOwnership(index, () => record)
  ownership.checkRecord(cellId, accountId)
  const contents = await index.contents(cellId, { signal })
  const { versions } = contents
  const listing = listingOf(versions)
  await ownership.checkManifests(cellId, versions, accountId, { signal })
  const targets = new RestoreTargets(parts, cellId, contents, { signal })
  const target = await targets.find({ version, timestamp, recovers, isBehind })
  // What is asked for by name is tried again: the object may have been mended.
  const damaged = version === undefined ? index.knownDamage(target.manifest, listing) : undefined
  if (damaged !== undefined) throw knownDamage(damaged)
  return { target, targets, listing, contents }
}

function knownDamage(version: string): CellError {
  return corrupt(
    version,
    'an earlier restore found it damaged; restore another version, or name this one to try it again',
  )
}
