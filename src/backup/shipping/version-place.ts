import type { Place } from '../changes/history.ts'
import type { LogRef } from './log-row.ts'

/** What a version holds is in objects that were stored before its cut, or in one of the next. */
const OBJECTS_AFTER_CUT = 16

/** Where a version is in the history of its cell. */
export interface VersionPlace extends Place {
  /** The last log object that was stored before its cut, or null. */
  after: string | null
}

/** The log objects that can have what a version holds. */
export function refsUpTo(refs: readonly LogRef[], { after }: Pick<VersionPlace, 'after'>): readonly LogRef[] {
  const cut = refs.findIndex(({ key }) => key > (after ?? ''))
  return cut === -1 ? refs : refs.slice(0, cut + OBJECTS_AFTER_CUT)
}
