import type { ManifestHead } from '../archive/manifest.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { type CellLog, collectLog } from '../shipping/cell-pieces.ts'
import type { LogIndex } from '../shipping/log-index.ts'
import type { LogRef } from '../shipping/log-row.ts'
import type { RestorableRange } from '../versions/backup-types.ts'
import type { RestoredMark } from '../versions/object-keys.ts'
import { goesOn, isUnchanged, knownTo, placeOf, timeOf } from './known-history.ts'

/** For a page, no more log objects than these are read: what is only in later ones is not shown. */
const OBJECTS_MAX = 1_000

/**
 * The times that can be restored from some versions of a cell, newest first. Between two versions of one history everything can,
 * if no log object is missing. After the last version of a history it is everything up to its last commit that was shipped.
 *
 * @param versions newest first
 * @param newer the version after them, if there is one
 */
export async function restorableRanges(
  log: LogIndex,
  cellId: string,
  versions: readonly ManifestHead[],
  newer: ManifestHead | undefined,
  marks: readonly RestoredMark[],
  options: CallOptions,
): Promise<RestorableRange[]> {
  const ranges: RestorableRange[] = []
  const refs = await refsAfter(log, versions, options)
  let room = OBJECTS_MAX
  let next = newer
  /** A log object with something that the cell committed after `next`: so all that it committed before is in those up to it. */
  let proof: string | undefined
  for (const manifest of versions) {
    const from = timeOf(manifest)
    const later = next !== undefined && goesOn(manifest, next, marks) ? next : undefined
    let to = from
    if (later !== undefined && (isUnchanged(manifest, later) || isWhole(refs, manifest, proof))) {
      to = timeOf(later)
    } else if (manifest.log !== undefined) {
      const own = refsOf(refs, manifest)
      const read = await collectLog(
        log,
        { ...manifest.log, cellId },
        {
          ...options,
          until: next && timeOf(next),
          through: later && placeOf(later),
          refs: own.slice(0, room),
          isNewest: next === undefined,
        },
      )
      room -= read.objects
      to = knownTo(read, manifest, later)
      proof = firstObject(read)
    }
    const last = ranges.at(-1)
    if (last !== undefined && to >= last.from) last.from = Math.min(from, last.from)
    else ranges.push({ from, to })
    next = manifest
  }
  return ranges
}

/** One look for all versions of the page. */
async function refsAfter(
  log: LogIndex,
  versions: readonly ManifestHead[],
  options: CallOptions,
): Promise<LogRef[]> {
  const [oldest] = versions
    .flatMap((each) => each.log ?? [])
    .map(({ after }) => after ?? '')
    .sort()
  return oldest === undefined ? [] : await log.after(oldest === '' ? null : oldest, options)
}

function refsOf(refs: readonly LogRef[], { log }: ManifestHead): LogRef[] {
  const after = log?.after ?? ''
  return refs.filter(({ key }) => key > after)
}

/** Whether no object from a version up to the proof is missing. */
function isWhole(refs: readonly LogRef[], manifest: ManifestHead, proof: string | undefined): boolean {
  if (proof === undefined || manifest.log === undefined) return false
  return refsOf(refs, manifest).every(({ key, isMissing }) => key > proof || !isMissing)
}

function firstObject({ wals }: CellLog): string | undefined {
  return wals[0]?.pieces[0]?.ref.key
}
