import type { Place } from '../changes/history.ts'
import type { LogRef } from './log-row.ts'

/** What a version holds is in objects that were stored before its cut, or in one of the next. */
const OBJECTS_AFTER_CUT = 16

/** Where a version is in the history of its cell. */
export interface VersionPlace extends Place {
  /** The last log object that was stored before its cut; null if there is none, or its node did not know it yet. */
  after: string | null
}

/** The log objects that can have what a version holds. */
export function refsUpTo(refs: readonly LogRef[], { after }: Pick<VersionPlace, 'after'>): readonly LogRef[] {
  return refs.slice(0, endOfVersion(refs, { after }))
}

/**
 * After how many log objects, in their order, there is nothing that a version holds. A node that has just started knows of none
 * before its cut: then it can be any of them.
 */
export function endOfVersion(refs: readonly LogRef[], { after }: Pick<VersionPlace, 'after'>): number {
  return after === null ? refs.length : Math.min(refs.length, firstAfter(refs, after) + OBJECTS_AFTER_CUT)
}

/** Where the first log object after a key is: there can be sixty thousand, in their order, and a thousand versions to look for. */
export function firstAfter(refs: readonly LogRef[], after: string | null): number {
  let [low, high] = [0, refs.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((refs[middle] as LogRef).key > (after ?? '')) high = middle
    else low = middle + 1
  }
  return low
}
