import type { ManifestHead } from '../../archive/manifest.ts'
import { type CellLog, holdsPlace, type JoinedWal, type VersionPlace } from '../../shipping/cell-pieces.ts'
import { parseVersion, type RestoredMark } from '../../versions/object-keys.ts'

/** Epoch milliseconds, on the cell's line of time. */
export function timeOf({ log, created_at }: ManifestHead): number {
  return log?.at ?? Date.parse(created_at)
}

/** Whether the history of a version went on up to the next one; without one, whether no mark says that it has ended. */
export function goesOn(
  { version, log }: ManifestHead,
  newer: ManifestHead | undefined,
  [mark]: readonly RestoredMark[],
): boolean {
  if (newer !== undefined && newer.log?.history !== log?.history) return false
  const before = parseVersion(version)?.time ?? 0
  const after = newer === undefined ? Number.POSITIVE_INFINITY : (parseVersion(newer.version)?.time ?? 0)
  return mark === undefined || mark.time <= before || mark.time >= after
}

/** The place in its history up to which a version holds everything. Earlier manifests do not say how many frames that are. */
export function placeOf({ log }: ManifestHead): VersionPlace | undefined {
  return log && { ...log, frames: log.frames ?? Number.POSITIVE_INFINITY }
}

/** Whether nothing was committed between two versions of one history. */
export function isUnchanged({ log }: ManifestHead, newer: ManifestHead): boolean {
  return log !== undefined && log.sequence === newer.log?.sequence
}

/**
 * The last moment of which is known what the cell was, in a history that went on up to the next version, or that has ended. In the
 * log objects alone nothing shows that: a cell whose history has ended is no longer in them, and neither is what it had not shipped.
 *
 * @param next the next version if the history goes on to it
 */
export function knownTo(
  { wals }: Pick<CellLog, 'wals'>,
  manifest: ManifestHead,
  next: ManifestHead | undefined,
): number {
  const last = lastCommit(wals, manifest)
  if (next === undefined) return last
  const place = placeOf(next)
  const isWhole = isUnchanged(manifest, next) || (place !== undefined && holdsPlace(wals, place))
  return isWhole ? Math.max(last, timeOf(next)) : last
}

export function lastCommit(wals: readonly JoinedWal[], manifest: ManifestHead): number {
  return wals.at(-1)?.commits.at(-1)?.[1] ?? timeOf(manifest)
}
