import type { Clock } from '../../base/clock.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import { parseVersion, type RestoredMark, restoredMarkOf, versionOf } from '../versions/object-keys.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'

/** What the object store has of a cell, newest first. */
export interface CellContents {
  versions: readonly StoredVersion[]
  marks: readonly RestoredMark[]
}

/**
 * The version whose state the cell had last, as far as the object store knows: its newest, unless the cell was restored to
 * another one after that.
 */
export function currentVersion({ versions, marks }: CellContents): string | undefined {
  const newest = versions[0]?.version
  const [mark] = marks
  if (newest === undefined || mark === undefined || mark.time <= timeOf(newest)) return newest
  return versions.some(({ version }) => version === mark.version) ? mark.version : newest
}

/** The cell of a mark, wherever it is open. */
export interface MarkedCell {
  /** The newest version that this machine knows, stored or only tried. */
  last: string | null
  /** The cell counts as changed, and the time of this name is used up. */
  noteMark(name: string): Promise<void>
}

/**
 * Marks that a cell is restored to a version: a total loss then brings back this state, and not that of its newest backup.
 * Call it before the switch, so that the restored cell never serves without its mark. After a crash between the two, the
 * old cell is still here and counts as changed, and its next backup is newer than the mark.
 *
 * @returns the name of a version at the mark's place in the order; no version has it
 */
export async function markRestored(
  store: ObjectStore,
  clock: Clock,
  version: string,
  { versions, marks }: CellContents,
  { cellId, last, noteMark }: MarkedCell & { cellId: string },
  options: CallOptions,
): Promise<string> {
  const taken = [last, lastName(cellId, { versions, marks })].map((each) => timeOf(each) + 1)
  const time = Math.max(clock.now(), ...taken)
  const name = versionOf(cellId, time)
  await noteMark(name)
  const body = Buffer.from(`${JSON.stringify({ version })}\n`)
  await store.put(restoredMarkOf(time, version).key, bufferBody(body), options)
  // Only the newest mark counts. One that stays is removed by the next restore.
  await Promise.allSettled(marks.map(({ key }) => store.delete(key, options)))
  return name
}

/** The last name in the order of a cell's versions that a version or a mark has: the next version gets a later one. */
export function lastName(cellId: string, { versions, marks }: CellContents): string | undefined {
  const newest = versions[0]?.version
  const [mark] = marks
  return mark === undefined || mark.time <= timeOf(newest) ? newest : versionOf(cellId, mark.time)
}

function timeOf(version: string | null | undefined): number {
  return (version && parseVersion(version)?.time) || 0
}
