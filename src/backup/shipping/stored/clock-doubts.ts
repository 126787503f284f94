import type { CellError } from '../../../errors.ts'
import type { LogManifest } from '../log/log-manifest.ts'
import type { LogRef, LogRefs } from '../log/log-refs.ts'

const PARALLEL_READS = 16
/** A clock is not set back by more: what an object says to be complete, later ones may add to if it was. */
export const CLOCK_STEP_MAX_MS = 86_400_000

/** An object that says that everything up to a time is in it, or in earlier ones. */
interface CompleteObject {
  ref: LogRef
  completeTo: number
  /** The log objects after it, in their order. */
  later: LogRefs
}

/**
 * The clock may have been far ahead when it said up to when an object is complete. A later process with a right clock then has
 * what was committed before that: in its first object, since each epoch has one process that ships. Or the newest object of all is from
 * before that time.
 *
 * @param horizon epoch milliseconds: what was committed after it does not matter
 * @returns the last epoch that shows it; no object of an earlier epoch is to be believed
 */
export async function epochOfDoubt(
  { ref, completeTo, later }: CompleteObject,
  horizon: number,
  read: (ref: LogRef) => Promise<LogManifest | CellError>,
): Promise<number | undefined> {
  const newest = later.at(-1) ?? ref
  const last = await read(newest)
  if (!('created_at' in last) || Date.parse(last.created_at) < completeTo) return newest.epoch
  const firsts = later.firstOfEpochs.filter(({ epoch }) => epoch !== ref.epoch).reverse()
  for (let i = 0; i < firsts.length; i += PARALLEL_READS) {
    const some = firsts.slice(i, i + PARALLEL_READS)
    const manifests = await Promise.all(some.map(read))
    const doubt = manifests.findIndex((manifest) => !beginsAfter(manifest, horizon + CLOCK_STEP_MAX_MS))
    if (doubt !== -1) return some[doubt]?.epoch
  }
  return undefined
}

/** What the object store has taken late was committed earlier than the object was made. */
function beginsAfter(manifest: LogManifest | CellError, time: number): boolean {
  return 'created_at' in manifest && Math.min(Date.parse(manifest.created_at), manifest.from) > time
}
