import path from 'node:path'
import Database from 'better-sqlite3'

/** A change, which `Entries.commit` runs; it gives the answer. */
export type Change = () => object

/** One database of a bare server: prepared statements, whose commits are on disk. */
export class Entries {
  /** Runs changes in one transaction. @returns their answers, once they are on disk */
  readonly commit: (changes: readonly Change[]) => object[]
  readonly #database: Database.Database
  readonly #select: Database.Statement
  readonly #upsert: Database.Statement
  readonly #statements = new Map<string, Database.Statement>()

  constructor(file: string) {
    this.#database = new Database(file)
    this.#database.pragma('journal_mode = WAL')
    this.#database.pragma('synchronous = FULL')
    this.#database.exec(
      'CREATE TABLE IF NOT EXISTS kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID',
    )
    this.#select = this.#database
      .prepare('SELECT value FROM kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)')
      .pluck()
    this.#upsert = this.#database.prepare(
      'INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at',
    )
    this.commit = this.#database.transaction((changes: readonly Change[]) => changes.map((run) => run()))
  }

  get(key: string): object {
    return { key, value: this.#select.get(key, Date.now()) }
  }

  put(key: string, value: string): Change {
    return () => {
      this.#upsert.run(key, value, null)
      return { key }
    }
  }

  /** @returns the rows of a query, or a change */
  sql(sql: string, params: unknown[]): object | Change {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement.reader ? { rows: statement.all(params) } : () => statement.run(params)
  }
}

/**
 * `/<key>` is an entry, `/<database>/<key>` one of another database, which is made when it is first named; a POST to `/<database>/` runs
 * a statement.
 */
export class Databases {
  readonly #directory: string
  readonly #databases = new Map<string, Entries>()

  constructor(directory: string) {
    this.#directory = directory
  }

  /** @returns the answer, or the change that gives it, and its database */
  run(method: string, url: string, body: string): [Entries, object | Change] {
    const slash = url.lastIndexOf('/')
    const entries = this.#entriesOf(url.slice(1, Math.max(slash, 1)))
    const key = url.slice(slash + 1)
    if (method === 'GET') return [entries, entries.get(key)]
    const { sql, params, value } = JSON.parse(body)
    return [entries, method === 'POST' ? entries.sql(sql, params) : entries.put(key, value)]
  }

  #entriesOf(name: string): Entries {
    const found = this.#databases.get(name)
    if (found !== undefined) return found
    const entries = new Entries(path.join(this.#directory, `${name || 'bare'}.db`))
    this.#databases.set(name, entries)
    return entries
  }
}
