import type { Limits } from '../../base/options/limits.ts'
import {
  checkOptions,
  judgedByReader,
  maybe,
  type Shape,
  SIGNAL,
  TEXT,
} from '../../base/options/option-shapes.ts'
import type { CommitChanges } from '../../engine/watch/commit-recorder.ts'
import { CellError } from '../../errors.ts'

/** What somebody who watches a cell is told. */
export type CellChange = CellCommit | CellReset

/**
 * A commit, with what it touched. It may name more than was changed, and never less: null stands for any key or any table.
 * What a watcher did not ask for is left out.
 */
export interface CellCommit extends CommitChanges {
  readonly type: 'commit'
  /** Pass it as `lastEventId` to go on after this commit. */
  readonly id: string
}

/** What is known of the cell's content is not enough to go on: read again all that you need. */
export interface CellReset {
  readonly type: 'reset'
  /** Pass it as `lastEventId` to go on after this reset. */
  readonly id: string
  readonly reason: ResetReason
}

/** Why a reader has to read everything again. */
export type ResetReason =
  /** The watch begins. */
  | 'start'
  /** The watch can't go on after `lastEventId`: too many commits or too much time lie between, or the process is another one. */
  | 'unknown_id'
  /** The reader has fallen so far behind that commits it has not read were dropped. */
  | 'too_slow'
  /** The cell was restored. */
  | 'restored'
  /** A worker ended or the disk failed, and commits may have been missed. */
  | 'interrupted'

/** What of a cell is watched; by default all of its keys and tables. */
export interface WatchOptions {
  /** Commits that touch keys with this prefix. */
  prefix?: string
  /** Commits that touch these tables; together with `prefix`, commits that touch either. */
  tables?: readonly string[]
  /** `id` of the last change that was read. Without it the watch begins with a reset. */
  lastEventId?: string | undefined
  /** Ends the watch: the iterator throws its reason. */
  signal?: AbortSignal | undefined
}

const WATCH: Shape<WatchOptions> = {
  prefix: judgedByReader('the beginning of keys'),
  tables: judgedByReader('a list of names'),
  lastEventId: maybe(TEXT),
  signal: maybe(SIGNAL),
}
/** Tables that a watch may name. */
export const WATCHED_TABLES_MAX = 100

/** @throws `invalid_request`, `invalid_key` */
export function checkWatchOptions(options: WatchOptions, { keyBytesMax }: Pick<Limits, 'keyBytesMax'>): void {
  checkOptions(options, WATCH)
  const { prefix, tables } = options
  if (prefix !== undefined && (typeof prefix !== 'string' || Buffer.byteLength(prefix) > keyBytesMax)) {
    throw new CellError('invalid_key', `prefix must be a string of at most ${keyBytesMax} bytes.`, {
      field: 'prefix',
      limit: keyBytesMax,
    })
  }
  if (tables !== undefined) checkTables(tables)
}

function checkTables(tables: readonly string[]): void {
  const isList = Array.isArray(tables) && tables.length > 0 && tables.length <= WATCHED_TABLES_MAX
  if (isList && tables.every((table) => typeof table === 'string' && table !== '')) return
  throw new CellError('invalid_request', `tables must be a list of 1 to ${WATCHED_TABLES_MAX} names.`, {
    field: 'tables',
    limit: WATCHED_TABLES_MAX,
  })
}

/** What of a commit a watcher is told. @returns undefined if it is nothing */
export type ChangeFilter = (changes: CommitChanges) => CommitChanges | undefined

export function filterOf({ prefix, tables }: WatchOptions): ChangeFilter {
  if (prefix === undefined && tables === undefined) return (changes) => changes
  const wanted = new Set(tables?.map(foldCase))
  return (changes) => {
    const touched = {
      keys: prefix === undefined ? [] : (changes.keys?.filter((key) => key.startsWith(prefix)) ?? null),
      tables:
        tables === undefined ? [] : (changes.tables?.filter((each) => wanted.has(foldCase(each))) ?? null),
    }
    return touched.keys?.length === 0 && touched.tables?.length === 0 ? undefined : touched
  }
}

/** SQLite compares names so: only letters of ASCII are the same in both cases. */
function foldCase(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}
