import type { Place } from '../../changes/history.ts'
import type { LogRefs } from '../log/log-refs.ts'

/** What a version holds is in objects that were stored before its cut, or in one of the next. */
const OBJECTS_AFTER_CUT = 16

/** Where a version is in the history of its cell. */
export interface VersionPlace extends Place {
  /** The last log object that was stored before its cut; null if there is none, or its node did not know it yet. */
  after: string | null
}

/** The log objects that can have what a version holds. */
export function refsUpTo(refs: LogRefs, version: Pick<VersionPlace, 'after'>): LogRefs {
  return refs.slice(0, endOfVersion(refs, version))
}

/**
 * After how many log objects, in their order, there is nothing that a version holds. A node that has just started knows of none
 * before its cut: then it can be any of them.
 */
export function endOfVersion(refs: LogRefs, { after }: Pick<VersionPlace, 'after'>): number {
  return after === null ? refs.length : Math.min(refs.length, refs.firstAfter(after) + OBJECTS_AFTER_CUT)
}
