import fs from 'node:fs'
import path from 'node:path'
import { CellError } from '../errors.ts'
import { CellDatabase, type CellDatabaseSettings, type CellHooks } from './cell-database.ts'
import { fsyncDirectory, makeDirectory, writeNewFile } from './durable-files.ts'
import { databaseImage, type Statement } from './sqlite.ts'

const SCHEMA_VERSION = 1

const SCHEMA = `
  CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
`

/**
 * The store's own database: which cells there are, and what the parts above keep of accounts and keys. A cell like any
 * other to the engine and to backups, under the store's own id.
 */
export class Catalog {
  readonly database: CellDatabase
  readonly storeId: string
  readonly #onChange: () => void
  readonly #countChange: Statement
  readonly #getMeta: Statement
  readonly #setMeta: Statement

  /** @param onChange called after each {@link change} */
  constructor(file: string, settings: CellDatabaseSettings, hooks: CellHooks, onChange: () => void) {
    this.database = new CellDatabase(file, settings, hooks)
    this.#onChange = onChange
    this.#getMeta = this.database.prepare('SELECT value FROM meta WHERE key = ?').pluck()
    this.#setMeta = this.database.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)')
    this.#countChange = this.database.prepare("UPDATE meta SET value = value + 1 WHERE key = 'changes'")
    this.storeId = this.meta('store_id') ?? ''
    const version = this.meta('schema_version')
    if (version !== String(SCHEMA_VERSION)) {
      this.database.close()
      throw new CellError(
        'cell_quarantined',
        `The catalog is of schema version ${version}; this version knows ${SCHEMA_VERSION}.`,
      )
    }
  }

  /** Writes the file of a new, empty catalog, durably and as a unit. @param createdAt epoch milliseconds @param tables the DDL of the parts above */
  static write(file: string, storeId: string, createdAt: number, tables: readonly string[]): void {
    const meta = `
      INSERT INTO meta VALUES ('schema_version', '${SCHEMA_VERSION}'), ('store_id', '${storeId}'), ('created_at', '${createdAt}'), ('changes', '0');
    `
    makeDirectory(path.dirname(file))
    const temporary = `${file}.new`
    fs.rmSync(temporary, { force: true })
    writeNewFile(temporary, databaseImage([SCHEMA, ...tables, meta].join('\n')))
    fs.renameSync(temporary, file)
    fsyncDirectory(path.dirname(file))
  }

  /** @throws `store_closed` */
  assertOpen(): void {
    this.database.assertUsable()
  }

  /** Counts up with every {@link change}: what tells whether a backup holds all of them. */
  get changes(): number {
    return Number(this.meta('changes'))
  }

  /** Runs a change that has to be in the catalog's backup. */
  change<T>(run: () => T): T {
    const value = this.database.transaction(() => {
      this.#countChange.run()
      return run()
    })
    this.#onChange()
    return value
  }

  /** Runs a change that need not be backed up for its own sake, such as when a key was last used. */
  note<T>(run: () => T): T {
    return this.database.withoutSync(() => this.database.transaction(run))
  }

  meta(key: string): string | undefined {
    return this.#getMeta.get(key) as string | undefined
  }

  setMeta(key: string, value: string): void {
    this.change(() => this.#setMeta.run(key, value))
  }

  prepare(sql: string): Statement {
    return this.database.prepare(sql)
  }

  close(): void {
    this.database.close()
  }
}
