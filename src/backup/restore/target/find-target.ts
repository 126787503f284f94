import type { Tenure } from '../../../catalog/assignment/assignment.ts'
import type { CellRecord } from '../../../catalog/cell-registry.ts'
import { CellError } from '../../../errors.ts'
import { corrupt } from '../../archive/backup-errors.ts'
import type { ObjectReader } from '../../archive/object-reader.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import type { PlannedObject, RestorePlan } from '../../versions/backup-types.ts'
import { CellOwnership } from '../../versions/identity/cell-ownership.ts'
import { type Listing, listingOf } from '../../versions/version-index.ts'
import { ShippedLog } from '../build/shipped-log.ts'
import type { CellContents } from '../install/restored-mark.ts'
import { timeOf } from './known-history.ts'
import {
  type RequestedState,
  type RestoreTarget,
  RestoreTargets,
  type TargetParts,
} from './restore-target.ts'

export interface FinderParts extends TargetParts {
  /**
   * Stores what the cell has committed and is not shipped yet. Undefined: nothing is shipped.
   *
   * @returns whether all that it has committed is stored now
   */
  ship?: ((cellId: string, options: ShipOptions) => Promise<boolean>) | undefined
  /** Whether what is known of the cell on this machine shows that all that it has committed is stored. */
  isStored(cellId: string): boolean
  /** The cell's record in the catalog, as it is now. */
  recordOf(cellId: string): Promise<CellRecord | undefined>
}

export interface ShipOptions extends CallOptions {
  /** What an account asks for shares its log objects with what comes soon. Undefined: the store's owner waits for nobody. */
  accountId?: string | undefined
}

/** What is restored, and for whom. */
export interface RequestedRestore extends Partial<Omit<RequestedState, 'isBehind'>>, CallOptions {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** The cell's database file is on this machine. */
  isLocal: boolean
  /** Refuses the cell if it is not this account's. */
  accountId?: string | undefined
  /** What is stored has to do: no version is made for it. */
  onlyStored?: boolean | undefined
  /** Of the cell; undefined without a cluster. */
  tenures?: readonly Tenure[] | undefined
}

export interface FoundTarget {
  target: RestoreTarget
  targets: RestoreTargets
  listing: Listing
  contents: CellContents
}

/** What the cell has committed can't be shipped before a version of it is stored. */
export class NeedsVersion extends CellError {}

/**
 * Finds what a restore restores. A moment may be so recent that it is not shipped yet: what is pending is stored before.
 *
 * @throws {@link NeedsVersion} for the present state, after a restore for example; `cell_not_found` if it may not have the
 * cell; `backup_not_found`, `backup_corrupt`; what the object store throws
 */
export async function findTarget(
  parts: FinderParts,
  cellId: string,
  request: RequestedRestore,
): Promise<FoundTarget> {
  const { index, ship, isStored, recordOf } = parts
  const { record, isLocal, accountId, version, timestamp, recovers = false, onlyStored, signal } = request
  const ownership = new CellOwnership(index, () => record)
  ownership.checkRecord(cellId, accountId)
  const isPending = isLocal && goneSince(record) === undefined && (timestamp !== undefined || recovers)
  const isPartial = isPending && !(ship ? await ship(cellId, { signal, accountId }) : isStored(cellId))
  // Of a cell that was deleted meanwhile, nobody had anything left to ship.
  const goneAt = goneSince(isPending ? await recordOf(cellId) : record)
  if (isPartial && recovers && ship !== undefined && goneAt === undefined) throw needsVersion()
  const isBehind = goneAt !== undefined || isPartial
  const contents = await index.contents(cellId, { signal })
  const { versions } = contents
  const listing = listingOf(versions)
  await ownership.checkManifests(cellId, versions, accountId, { signal })
  const targets = new RestoreTargets(
    parts,
    { cellId, contents, goneAt, tenures: request.tenures },
    { signal },
  )
  // A cell that was made a moment ago, or of which only its creation is in a version.
  const isOfLatest = timestamp === undefined && !recovers && !onlyStored
  const mayNeedOne = isLocal && goneAt === undefined && version === undefined
  if (mayNeedOne && (versions.length === 0 || (isOfLatest && !(await targets.latest())))) throw needsVersion()
  const target = await targets.find({ version, timestamp, recovers, isBehind })
  // What is asked for by name is tried again: the object may have been mended.
  const damaged = version === undefined ? index.knownDamage(target.manifest, listing) : undefined
  if (damaged !== undefined) throw knownDamage(damaged)
  return { target, targets, listing, contents }
}

/** What a deleted cell had not stored went with its files, and nothing shows how much that was. */
function goneSince(record: CellRecord | undefined): number | undefined {
  return record === undefined ? Number.POSITIVE_INFINITY : (record.deletedAt ?? undefined)
}

function needsVersion(): NeedsVersion {
  return new NeedsVersion(
    'backup_not_found',
    'What the cell has committed is in no version yet. Try again once one is stored, or name a version or a time.',
  )
}

function knownDamage(version: string): CellError {
  return corrupt(
    version,
    'an earlier restore found it damaged; restore another version, or name this one to try it again',
  )
}

/**
 * What a restore would restore, and which objects it would read. Changes no cell, and reads no more than manifests and the ends
 * of log objects.
 *
 * @throws as {@link findTarget}
 */
export async function planRestore(
  parts: FinderParts & { reader: ObjectReader },
  cellId: string,
  request: RequestedRestore,
): Promise<RestorePlan> {
  const { signal } = request
  const { target, listing } = await findTarget(parts, cellId, { ...request, onlyStored: true })
  const { manifest, wals, log: shipped, time } = target
  const { version, kind, chain } = manifest
  const versions = await Promise.all(
    [...chain, version].map(async (key) => ({
      key,
      sizeBytes: listing.get(key) ?? (await parts.reader.size(key, { signal })),
    })),
  )
  const log = await new ShippedLog(shipped, wals, timeOf(manifest), { signal }).sizes()
  const objects: PlannedObject[] = [...versions, ...log]
  const sizes = { sizeBytes: bytesOf(objects), sizeOfLog: bytesOf(log) }
  return { version, kind, timestamp: time, objects, ...sizes }
}

function bytesOf(objects: readonly PlannedObject[]): number {
  return objects.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
