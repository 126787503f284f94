import type { ManifestHead } from '../archive/manifest.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import { collectLog } from '../shipping/cell-pieces.ts'
import type { LogIndex } from '../shipping/log-index.ts'
import type { RestorableRange } from '../versions/backup-types.ts'
import { parseVersion, type RestoredMark } from '../versions/object-keys.ts'
import { timeOf } from './restore-target.ts'

/** Where a history ends, its log objects are read to find out when; no more than this for a page. */
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
  let next = newer
  let room = OBJECTS_MAX
  const afters = versions.flatMap(({ log: position }) =>
    position === undefined ? [] : [position.after ?? ''],
  )
  const oldest = afters.sort()[0]
  // One look for all versions of the page.
  const all = oldest === undefined ? [] : await log.after(oldest === '' ? null : oldest, options)
  for (const manifest of versions) {
    const from = timeOf(manifest)
    let to = from
    if (manifest.log !== undefined) {
      const { history, sequence, after } = manifest.log
      const refs = all.filter(({ key }) => after === null || key > after)
      const until = next && timeOf(next)
      if (next !== undefined && goesOn(manifest, next, marks) && isShippedUpTo(refs, next)) to = timeOf(next)
      else if (refs.length <= room) {
        room -= refs.length
        const { wals } = await collectLog(
          log,
          { cellId, history, sequence, after },
          { ...options, until, refs, isNewest: next === undefined },
        )
        to = wals.at(-1)?.commits.at(-1)?.[1] ?? from
      }
    }
    const last = ranges.at(-1)
    if (last !== undefined && to >= last.from) last.from = Math.min(from, last.from)
    else ranges.push({ from, to })
    next = manifest
  }
  return ranges
}

/** Whether a version is in the same unbroken history as the next one. */
function goesOn(manifest: ManifestHead, next: ManifestHead, marks: readonly RestoredMark[]): boolean {
  const [mark] = marks
  const [before, after] = [manifest, next].map(({ version }) => parseVersion(version)?.time ?? 0)
  const isMarked = mark !== undefined && mark.time > (before ?? 0) && mark.time < (after ?? 0)
  return manifest.log?.history === next.log?.history && !isMarked
}

/** No object up to the next version is missing, and a later one shows that everything before it was shipped. */
function isShippedUpTo(refs: readonly { key: string; isMissing: boolean }[], { log }: ManifestHead): boolean {
  const end = refs.findIndex(({ key }) => log?.after == null || key > log.after)
  return end !== -1 && refs.slice(0, end + 1).every(({ isMissing }) => !isMissing)
}
