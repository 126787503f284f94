import type { ObjectReader } from '../../archive/object-reader.ts'
import type { PlannedObject, RestorePlan } from '../../versions/backup-types.ts'
import { ShippedLog } from '../build/shipped-log.ts'
import { type FinderParts, findTarget, type WantedRestore } from './find-target.ts'
import { timeOf } from './known-history.ts'

/**
 * What a restore would restore, and which objects it would read. Changes no cell, and reads no more than manifests and the ends
 * of log objects.
 *
 * @throws as {@link findTarget}
 */
export async function planRestore(
  parts: FinderParts & { reader: ObjectReader },
  cellId: string,
  wanted: WantedRestore,
): Promise<RestorePlan> {
  const { signal } = wanted
  const { target, listing } = await findTarget(parts, cellId, { ...wanted, onlyStored: true })
  const { manifest, wals, time } = target
  const { version, kind, chain } = manifest
  const versions = await Promise.all(
    [...chain, version].map(async (key) => ({
      key,
      sizeBytes: listing.get(key) ?? (await parts.reader.size(key, { signal })),
    })),
  )
  const log = await new ShippedLog(parts.log, wals, timeOf(manifest), { signal }).sizes()
  const objects: PlannedObject[] = [...versions, ...log]
  const sizes = { sizeBytes: bytesOf(objects), sizeOfLog: bytesOf(log) }
  return { version, kind, timestamp: time, objects, ...sizes }
}

function bytesOf(objects: readonly PlannedObject[]): number {
  return objects.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}
