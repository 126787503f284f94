import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'

/** PRAGMAs whose answer a tenant may change, or that do something or report at length when they are read. */
const NOT_SETTINGS = new Set([
  'case_sensitive_like',
  'collation_list',
  'compile_options',
  'data_version',
  'foreign_key_check',
  'foreign_key_list',
  'freelist_count',
  'function_list',
  'incremental_vacuum',
  'index_info',
  'index_list',
  'index_xinfo',
  'integrity_check',
  'module_list',
  'optimize',
  'page_count',
  'pragma_list',
  'quick_check',
  'schema_version',
  'shrink_memory',
  'table_info',
  'table_list',
  'table_xinfo',
  'user_version',
  'wal_checkpoint',
])

/** Settings that have no table-valued function, or more than one column. */
const SINGLE_SETTINGS = ['database_list', 'mmap_size', 'temp_store_directory', 'wal_autocheckpoint']

const RESERVED_SCHEMA = `
  CREATE TABLE _cell_kv(key TEXT PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID;
  CREATE TABLE _cell_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
  INSERT INTO _cell_kv VALUES ('a', 'one', NULL), ('b', 'two', NULL);
  INSERT INTO _cell_meta VALUES ('schema', 'WORKER-SECRET');`
/** Something for a tenant's statements to work on. */
const TENANT_SCHEMA = `
  CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
  CREATE TABLE u(a UNIQUE);
  INSERT INTO t VALUES (1, 'x'), (2, 'y');
  INSERT INTO u VALUES (1), (2);
  CREATE VIRTUAL TABLE ft USING fts4(body);
  INSERT INTO ft VALUES ('hello'), ('world');`
const SECRETS = ['WORKER-SECRET', 'OTHER-TENANT-SECRET']
const ROWS_MAX = 1_000

export type Outcome = 'ran' | 'failed'

/**
 * A cell as the engine opens it, with the eyes to see what a statement did that it must not: another file, a changed
 * setting, a transaction begun or ended, a TEMP object, a change to the engine's own tables, a secret or a path told.
 */
export class TenantDatabase {
  readonly folder: string
  readonly otherPath: string
  readonly connection: Database.Database
  readonly #settings: Database.Statement
  readonly #baseline: string
  /** What the last statement failed with. */
  failure = ''
  #told: string[] = []

  constructor() {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-policy-'))
    this.otherPath = path.join(this.folder, 'other.db')
    const other = new Database(this.otherPath)
    other.exec("CREATE TABLE secret(x); INSERT INTO secret VALUES ('OTHER-TENANT-SECRET')")
    other.close()
    fs.mkdirSync(path.join(this.folder, 'cell'))
    this.connection = new Database(path.join(this.folder, 'cell', 'cell.db'))
    this.connection.pragma('journal_mode = WAL')
    // Thousands of commits; that they reach the disk is another test's subject.
    this.connection.pragma('synchronous = OFF')
    this.connection.exec(RESERVED_SCHEMA)
    this.connection.exec(TENANT_SCHEMA)
    this.connection.exec('CREATE TEMP VIEW cell_kv AS SELECT * FROM main._cell_kv')
    this.#settings = this.connection.prepare(this.#settingsQuery()).raw()
    this.#baseline = this.#fingerprint()
  }

  /** The text with `{folder}` and `{other}` filled in: this database's folder, and another tenant's database. */
  inPlace(sql: string): string {
    return sql.replaceAll('{folder}', this.folder).replaceAll('{other}', this.otherPath)
  }

  /** Prepares and runs a text, as a tenant's; what it answers is kept for {@link violations}. */
  run(sql: string): Outcome {
    try {
      const statement = this.connection.prepare(sql)
      if (!statement.reader) {
        statement.run()
        return 'ran'
      }
      let rows = 0
      for (const row of statement.raw().iterate()) {
        this.#told.push(
          JSON.stringify(row, (_key, value) => (typeof value === 'bigint' ? String(value) : value)),
        )
        if (++rows >= ROWS_MAX) break
      }
      return 'ran'
    } catch (error) {
      this.failure = (error as Error).message
      this.#hear(sql, this.failure)
      return 'failed'
    }
  }

  /** What has happened since the last look that no tenant's statement may do; empty when all is well. */
  violations(inTransaction: boolean): string[] {
    const found: string[] = []
    if (this.connection.inTransaction !== inTransaction) found.push(`inTransaction is ${!inTransaction}`)
    const fingerprint = this.#fingerprint()
    if (fingerprint !== this.#baseline) found.push(`was ${this.#baseline}, is ${fingerprint}`)
    const answers = this.#told.join('\n')
    this.#told = []
    for (const secret of [this.folder, ...SECRETS]) {
      if (answers.includes(secret)) found.push(`an answer holds ${secret}`)
    }
    return found
  }

  close(): void {
    this.connection.close()
    fs.rmSync(this.folder, { recursive: true })
  }

  /** Keeps an answer, unless it can hold a path only because the statement did. */
  #hear(sql: string, answer: string): void {
    if (!sql.includes(this.folder)) this.#told.push(answer)
  }

  #fingerprint(): string {
    return JSON.stringify({
      settings: this.#settings.all(),
      single: SINGLE_SETTINGS.map((name) => this.connection.pragma(name)),
      like: this.#rows("SELECT 'a' LIKE 'A'"),
      temp: this.#rows('SELECT type, name FROM sqlite_temp_schema'),
      host: this.#rows(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE tbl_name LIKE '\\_cell%' ESCAPE '\\'",
      ),
      kv: this.#rows('SELECT * FROM main._cell_kv'),
      meta: this.#rows('SELECT * FROM main._cell_meta'),
      files: [...filesIn(this.folder), ...fs.readdirSync('.').filter((name) => name.includes('evil'))],
    })
  }

  /** One query for all settings: asking for each by a PRAGMA of its own takes ten times as long. */
  #settingsQuery(): string {
    const all = this.connection.pragma('pragma_list') as { name: string }[]
    return all
      .filter(({ name }) => !NOT_SETTINGS.has(name) && !SINGLE_SETTINGS.includes(name))
      .map(({ name }) => `SELECT '${name}', * FROM pragma_${name}`)
      .join(' UNION ALL ')
  }

  #rows(sql: string): unknown[] {
    return this.connection.prepare(sql).raw().all()
  }
}

function filesIn(folder: string): string[] {
  const names = fs.readdirSync(folder)
  return [...names, ...fs.readdirSync(path.join(folder, 'cell'))]
}
