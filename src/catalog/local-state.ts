import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { exists, FILE_MODE } from '../base/files/durable-files.ts'
import { bootId } from '../base/machine/machine.ts'
import { type Connection, openConnection, type Statement } from '../engine/sqlite.ts'
import { isDamage, isSqliteError } from '../engine/sqlite-errors.ts'
import { WalSync } from '../engine/wal/wal-sync.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
`

/** Set once the machine has had files of cells: see CellsFolder. It stays when the object store changes. */
export const HAS_CELLS_KEY = 'has_cells'

const BUSY_MS_MAX = 5_000
const SYNCHRONOUS = 'synchronous = NORMAL'

/**
 * What only this machine knows of its cells: when entries expire, how far backups have come. Each part keeps its own table
 * here. It is not backed up, and its commits are not fsynced unless {@link sync} or {@link syncInPool} is called: a scan of the cells finds all of it again, so losing it costs
 * time, never data.
 */
export class LocalState {
  readonly #connection: Connection
  readonly #statements = new Map<string, Statement>()
  readonly #isOwner: boolean
  readonly #wal: WalSync
  /** The object store that was used before, if this is another one: backup progress belongs to one object store. */
  readonly movedFrom: string | undefined
  /**
   * True if every row is up to date: the store was closed properly, or the machine has not been restarted since. Commits
   * here are not fsynced, but a killed process loses none.
   */
  complete: boolean
  /** True if the process that had the store before did not close it. Not known of one that had not yet seen every cell. */
  readonly wasLeftOpen: boolean

  /** Opens the state that another process, the owner of the store, has opened. */
  static join(path: string): LocalState {
    return new LocalState(path, undefined, openConfigured(path))
  }

  /**
   * @param objectStore the URL of the one that backups go to; rows about another one are dropped
   * @param joined a connection of a process that is not the store's owner
   */
  constructor(path: string, objectStore?: string, joined?: Connection) {
    const connection = joined ?? openOrReplace(path)
    this.#connection = connection
    this.#isOwner = joined === undefined
    this.#wal = new WalSync(path)
    this.complete = false
    this.wasLeftOpen = false
    if (joined !== undefined) return
    connection.exec(SCHEMA)
    this.wasLeftOpen = this.get('clean') === 'no'
    if (objectStore !== undefined) {
      const before = this.get('object_store') ?? objectStore
      if (before !== objectStore) {
        this.movedFrom = before
        const hasCells = this.get(HAS_CELLS_KEY)
        connection.close()
        this.#statements.clear()
        this.#connection = replace(path)
        this.#connection.exec(SCHEMA)
        if (hasCells !== undefined) this.set(HAS_CELLS_KEY, hasCells)
      }
      this.set('object_store', objectStore)
    }
    this.complete = this.get('clean') === 'yes' || this.get('boot') === thisBoot()
    this.set('clean', this.complete ? 'no' : 'incomplete')
    if (this.complete) this.set('boot', thisBoot())
  }

  /** Every cell was scanned: what a power loss took is known again. */
  markComplete(): void {
    this.complete = true
    this.set('clean', 'no')
    this.set('boot', thisBoot())
  }

  get(key: string): string | undefined {
    return this.prepare('SELECT value FROM state WHERE key = ?').pluck().get(key) as string | undefined
  }

  set(key: string, value: string): void {
    this.prepare('INSERT OR REPLACE INTO state VALUES (?, ?)').run(key, value)
  }

  /** Makes a part's tables. */
  define(schema: string): void {
    this.#connection.exec(schema)
  }

  /** Each text is compiled once. */
  prepare(sql: string): Statement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#connection.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  /**
   * Runs writes with one commit for all of them. What can't be committed is lost, as what a power loss takes: see above.
   *
   * @param run may throw; what it has written before that stays
   */
  together(run: () => void): void {
    const connection = this.#connection
    this.#tryTo('BEGIN IMMEDIATE')
    try {
      run()
    } finally {
      if (connection.inTransaction) this.#tryTo('COMMIT')
      if (connection.inTransaction) this.#tryTo('ROLLBACK')
    }
  }

  /** What was written so far survives a power loss from here on. */
  sync(): void {
    // The fsync of a commit covers all that is in the log before it.
    this.durably(() => this.set('synced', randomUUID()))
  }

  /** {@link sync} in the thread pool: nothing waits for the disk. @throws the system's error */
  async syncInPool(): Promise<void> {
    this.#wal.expect()
    await this.#wal.sync()
  }

  /** Runs a write that a power loss must not take. */
  durably(run: () => void): void {
    this.#connection.pragma('synchronous = FULL')
    try {
      run()
    } finally {
      this.#connection.pragma(SYNCHRONOUS)
    }
  }

  #tryTo(control: 'BEGIN IMMEDIATE' | 'COMMIT' | 'ROLLBACK'): void {
    try {
      this.#connection.exec(control)
    } catch {
      // Without a transaction, each write has a commit of its own.
    }
  }

  close(): void {
    try {
      if (this.complete) this.set('clean', 'yes')
      if (this.#isOwner) this.#connection.pragma('wal_checkpoint(TRUNCATE)')
    } finally {
      this.#connection.close()
    }
  }
}

/** Random where the system does not say which run of the machine this is, so that nothing is assumed. */
function thisBoot(): string {
  return bootId() ?? randomUUID()
}

/** A damaged file is deleted, since a scan finds all of it again. A file that can't be opened now may be sound. */
function openOrReplace(path: string): Connection {
  try {
    return openConfigured(path)
  } catch (error) {
    if (!isSqliteError(error) || !isDamage(error.code)) throw error
    return replace(path)
  }
}

function replace(path: string): Connection {
  for (const suffix of ['', '-wal', '-shm']) fs.rmSync(path + suffix, { force: true })
  return openConfigured(path)
}

function openConfigured(path: string): Connection {
  if (!exists(path)) fs.closeSync(fs.openSync(path, 'a', FILE_MODE))
  const connection = openConnection(path)
  try {
    // The workers and the archiver write here too, each for microseconds.
    connection.pragma(`busy_timeout = ${BUSY_MS_MAX}`)
    connection.pragma('journal_mode = WAL')
    connection.pragma(SYNCHRONOUS)
    connection.prepare('SELECT count(*) FROM sqlite_schema').get()
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}
