import { isCellError } from '../../errors.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import type { LogIndex } from './log-index.ts'
import type { LogRef } from './log-row.ts'

const PARALLEL_READS = 16

/** The last log object that has something of a cell, and the history to which that belongs. */
export interface NewestHistory {
  history: string
  key: string
}

/**
 * Looks for the newest piece of a cell, whatever its history. A piece is only shipped once a version of its history is stored: so a
 * history of which no version is listed shows that the listing lags, or that somebody removed the version.
 *
 * @param after the log object after which to look; null: all of them
 * @returns undefined if no object that can be read has anything of the cell
 */
export async function newestHistory(
  index: LogIndex,
  cellId: string,
  after: string | null,
  { signal }: CallOptions = {},
): Promise<NewestHistory | undefined> {
  const refs = await index.after(after, { signal })
  for (let end = refs.length; end > 0; end -= PARALLEL_READS) {
    signal?.throwIfAborted()
    const some = refs.slice(Math.max(0, end - PARALLEL_READS), end)
    const found = await Promise.all(some.map((ref) => historyIn(index, ref, cellId)))
    const at = found.findLastIndex((history) => history !== undefined)
    if (at !== -1) return { history: found[at] as string, key: (some[at] as LogRef).key }
  }
  return undefined
}

/** Damage is refused where the object is needed. */
async function historyIn(index: LogIndex, ref: LogRef, cellId: string): Promise<string | undefined> {
  try {
    const { cells } = await index.manifest(ref)
    return cells.findLast((cell) => cell.cell_id === cellId)?.history
  } catch (error) {
    if (isCellError(error, 'backup_corrupt')) return undefined
    throw error
  }
}
