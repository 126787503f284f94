/**
 * A store that a program uses in its own process, as durable as it can be: a change is on disk when its call returns, or, if it returns
 * a promise, when that resolves. What a store doesn't have is left out.
 */
export interface LibraryStore {
  get?(key: string): unknown
  put?(key: string, value: string): unknown
  /** Where changes that are under way together can share a commit. By default as {@link put}. */
  putShared?(key: string, value: string): unknown
  /** Adds one to a number, as one change. */
  incr?(key: string): unknown
  /** A row of {@link ROWS} by its id: with a statement prepared before, */
  selectPrepared?(id: number): unknown
  /** with its text, the first row, */
  selectText?(id: number): unknown
  /** with its text, all rows. */
  selectAll?(id: number): unknown
  close(): unknown
}

export interface LibraryPeer {
  /** Name, version and settings, for the table. */
  version(): string
  open(directory: string): LibraryStore | Promise<LibraryStore>
}

export const ROWS = 1_000
export const TABLE = 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, city TEXT)'
export const INSERT = 'INSERT INTO users VALUES (?, ?, ?, ?)'
export const SELECT = 'SELECT id, name, age, city FROM users WHERE id = ?'

export function rows(): [number, string, number, string][] {
  return Array.from({ length: ROWS }, (_, id) => [id, `name ${id}`, id % 90, `city ${id % 10}`])
}

/** Entries as a program without a library for them would keep them. */
export const ENTRIES =
  'CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID'
export const GET = 'SELECT value FROM kv WHERE key = ?'
export const PUT = 'INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
export const INCR =
  "INSERT INTO kv VALUES (?, '1') ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"

/** A library that commits synchronously has no changes under way: one transaction for all that come in a turn of the event loop. */
export function groupCommits(transaction: (run: () => void) => void): (change: () => void) => Promise<void> {
  let group: { change: () => void; done: () => void; failed: (error: unknown) => void }[] = []
  const commit = () => {
    const changes = group
    group = []
    try {
      transaction(() => {
        for (const { change } of changes) change()
      })
      for (const { done } of changes) done()
    } catch (error) {
      for (const { failed } of changes) failed(error)
    }
  }
  return (change) =>
    new Promise((done, failed) => {
      if (group.push({ change, done, failed }) === 1) setImmediate(commit)
    })
}
