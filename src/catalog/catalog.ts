import fs from 'node:fs'
import path from 'node:path'
import { Emitter } from '../base/async/emitter.ts'
import { fsyncDirectory, makeDirectory, writeNewFile } from '../base/files/durable-files.ts'
import { LruCache } from '../base/lru-cache.ts'
import { CellDatabase, type CellHooks } from '../engine/cell-database.ts'
import type { CellDatabaseSettings } from '../engine/cell-settings.ts'
import { databaseImage, type Statement } from '../engine/sqlite.ts'
import { CellError, isCellError } from '../errors.ts'
import type { CatalogWriter, Tried } from './catalog-writer.ts'
import { type SharedRow, SharedRows, type SharedTables } from './shared-rows.ts'

const VERSION_KEY = 'schema_version'

const SCHEMA = `
  CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
`

/** What the layers above keep in the catalog. */
export interface CatalogSchema {
  /** The DDL of a new catalog. */
  tables: readonly string[]
  /**
   * What brings the catalog of an earlier version to that: the first from schema version 1 to 2, and so on. A version of
   * cellstore that does not know the schema version refuses the catalog, so add one for what it must not ignore.
   */
  upgrades: readonly string[]
}

interface NewCatalog {
  storeId: string
  /** Epoch milliseconds. */
  createdAt: number
  /** The DDL of the layers above, and how many {@link CatalogSchema.upgrades} it includes. */
  schema: CatalogSchema
  /** The rows that they insert at the start. */
  meta?: Readonly<Record<string, string>> | undefined
}

/**
 * The store's own database: its cells, and what the layers above keep about accounts and keys. To the engine and to backups
 * it is a cell like any other, under the store's id.
 */
export class Catalog {
  readonly database: CellDatabase
  readonly #statements = new Map<string, Statement>()
  readonly storeId: string
  /** After each {@link change}. */
  readonly changed = new Emitter()
  #hooks: CellHooks = {}
  #version = 1
  #changing = 0
  #refusal: CellError | undefined
  #writer: CatalogWriter | undefined
  #shared: SharedRows | undefined
  /** The writer tries a change, or one comes from it: nothing else may change what is shared. */
  #isOfWriter = false

  /**
   * @param upgrades see {@link CatalogSchema}
   * @param failed told of errors in the catalog's upkeep
   */
  constructor(
    file: string,
    settings: CellDatabaseSettings,
    upgrades: CatalogSchema['upgrades'],
    failed: (error: unknown) => void,
  ) {
    this.database = new CellDatabase(file, settings, {
      changed: (database) => this.#hooks.changed?.(database),
      beforeCheckpoint: (database, wal) => this.#hooks.beforeCheckpoint?.(database, wal),
      afterCheckpoint: (database) => this.#hooks.afterCheckpoint?.(database),
      failed,
    })
    try {
      this.storeId = this.meta('store_id') ?? ''
      this.#checkVersion(upgrades)
    } catch (error) {
      this.database.close()
      throw isCellError(error, 'cell_quarantined') ? error : noCatalog('The file holds no store.', error)
    }
    try {
      this.#upgrade(upgrades)
    } catch (error) {
      this.database.close()
      throw error
    }
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return Number(this.meta('created_at') ?? 0)
  }

  /** From here on the backup part takes part in the catalog's life. */
  track(hooks: CellHooks): void {
    this.#hooks = hooks
    hooks.opened?.(this.database)
  }

  /** Writes the file of a new, empty catalog, durably and atomically. */
  static write(file: string, { storeId, createdAt, schema, meta = {} }: NewCatalog): void {
    const entries = Object.entries({
      ...meta,
      [VERSION_KEY]: String(schema.upgrades.length + 1),
      store_id: storeId,
      created_at: String(createdAt),
      changes: '0',
    })
    const rows = entries.map(([key, value]) => `INSERT INTO meta VALUES ('${key}', '${value}');`)
    makeDirectory(path.dirname(file))
    const temporary = `${file}.new`
    fs.rmSync(temporary, { force: true })
    writeNewFile(temporary, databaseImage([SCHEMA, ...schema.tables, ...rows].join('\n')))
    fs.renameSync(temporary, file)
    fsyncDirectory(path.dirname(file))
  }

  /** @throws `store_closed`; `cell_quarantined` if the catalog's file is damaged */
  assertOpen(): void {
    if (!this.database.open) throw new CellError('store_closed', 'The store was closed.')
    this.database.assertUsable()
  }

  /** No change is made after this: each is refused with the error. */
  refuseChanges(refusal: CellError): void {
    this.#refusal ??= refusal
  }

  #assertChangeable(): void {
    this.assertOpen()
    if (this.#refusal !== undefined) throw this.#refusal
  }

  /** Runs statements that only read. */
  read<T>(run: () => T): T {
    this.assertOpen()
    try {
      return run()
    } catch (error) {
      throw this.database.failure(error)
    }
  }

  /** Makes a table or an index that the catalogs of earlier versions lack. */
  ensure(name: string, schema: string): void {
    const find = this.prepare('SELECT count(*) FROM sqlite_schema WHERE name = ?').pluck()
    if (this.read(() => find.get(name)) === 0) this.change(() => this.database.exec(schema))
  }

  /** Counts up with every {@link change}: it tells whether a backup holds all of them. */
  get changes(): number {
    return Number(this.meta('changes'))
  }

  /** Runs a change that the catalog's backup must contain. */
  change<T>(run: () => T): T {
    return this.#change(() => this.#transaction(run))
  }

  /** {@link change} for a revocation or a deletion: it has room left in a full catalog. It can run twice. */
  changeDelete<T>(run: () => T): T {
    return this.#change(() => this.database.writeDelete(() => this.#transaction(run)))
  }

  /**
   * Runs changes, and resolves once they are on disk. Their fsync runs in the thread pool, where changes that are made
   * meanwhile share the next one. Until then, others see what a power loss may take back. In a catalog that is shared, the
   * writer runs them.
   */
  async durably<T>(run: () => T): Promise<T> {
    this.#assertChangeable()
    if (this.#writer !== undefined) return await this.#writer.write(run)
    const { syncs } = this.database
    const value = syncs.defer(run)
    await syncs.sync()
    return value
  }

  /** Other nodes have the catalog, too: from here on only {@link durably} changes it. */
  share(tables: SharedTables, writer: CatalogWriter): void {
    this.#shared = new SharedRows(this.database, tables)
    this.#writer = writer
  }

  /** All rows that are shared, some at a time. */
  sharedRows(): Generator<SharedRow[]> {
    return this.#rows.all()
  }

  /**
   * For the writer: runs changes, each on what those before it have left, and takes all of them back. One that throws has changed
   * nothing.
   *
   * @throws if the catalog can't be changed
   */
  trial(changes: readonly (() => unknown)[]): Tried[] {
    this.#assertChangeable()
    const tried: Tried[] = []
    const takeBack = new CellError('internal', 'A trial was taken back.')
    try {
      this.#ofWriter(() =>
        this.database.transaction(() => {
          for (const run of changes) tried.push(this.#try(run))
          throw takeBack
        }),
      )
    } catch (error) {
      if (error !== takeBack) throw error
    }
    return tried
  }

  /**
   * For the writer: leaves the shared rows as other nodes, or a {@link trial}, have left them.
   *
   * @param also runs in the same transaction; it may {@link replaceAll}
   */
  async absorb(rows: readonly SharedRow[], also: () => void): Promise<void> {
    this.#assertChangeable()
    const { syncs } = this.database
    syncs.defer(() =>
      this.#ofWriter(() =>
        this.changeDelete(() => {
          also()
          this.#rows.write(rows)
        }),
      ),
    )
    this.changed.emit()
    await syncs.sync()
  }

  /** In {@link absorb}: all rows that are shared go, before those that were given come. */
  removeShared(): void {
    this.#rows.clear()
  }

  get #rows(): SharedRows {
    if (this.#shared === undefined) throw new CellError('internal', 'The catalog is not shared.')
    return this.#shared
  }

  #try(run: () => unknown): Tried {
    try {
      return this.database.transaction(() => {
        const value = run()
        return { value, rows: this.#rows.take() }
      })
    } catch (error) {
      // What ends the transaction itself ends the trial.
      this.database.assertUsable()
      return { error }
    }
  }

  #ofWriter<T>(run: () => T): T {
    this.#isOfWriter = true
    this.#changing++
    try {
      return run()
    } finally {
      this.#isOfWriter = false
      this.#changing--
      this.#version++
    }
  }

  #transaction<T>(run: () => T): T {
    return this.database.transaction(() => {
      this.prepare("UPDATE meta SET value = value + 1 WHERE key = 'changes'").run()
      return run()
    })
  }

  #change<T>(run: () => T): T {
    this.#assertChangeable()
    if (this.#writer !== undefined && !this.#isOfWriter) throw notByWriter()
    this.#changing++
    try {
      const value = run()
      // What is tried is taken back, and what comes of it is told of then.
      if (!this.#isOfWriter) this.changed.emit()
      return value
    } finally {
      this.#changing--
      this.#version++
    }
  }

  /** Differs after every {@link change}, also after one that failed; undefined while one runs. */
  get version(): number | undefined {
    return this.#changing === 0 ? this.#version : undefined
  }

  /** Runs a change that alone needs no backup, such as when a key was last used. */
  note<T>(run: () => T): T {
    this.assertOpen()
    return this.database.syncs.skip(() =>
      this.database.transaction(() => {
        const value = run()
        if (this.#writer !== undefined && this.#rows.take().length > 0) throw notByWriter()
        return value
      }),
    )
  }

  /** {@link note} of what other nodes have, too. @returns undefined if it is written at once, since there are none */
  noteForAll(run: () => void): Promise<void> | undefined {
    if (this.#writer !== undefined) return this.durably(run)
    this.note(run)
    return undefined
  }

  meta(key: string): string | undefined {
    return this.read(
      () => this.prepare('SELECT value FROM meta WHERE key = ?').pluck().get(key) as string | undefined,
    )
  }

  setMeta(key: string, value: string): void {
    this.change(() => this.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(key, value))
  }

  /** Each text is compiled once. */
  prepare(sql: string): Statement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  close(): void {
    this.database.close()
  }

  #checkVersion(upgrades: CatalogSchema['upgrades']): void {
    const version = Number(this.meta(VERSION_KEY))
    const known = upgrades.length + 1
    if (Number.isSafeInteger(version) && version >= 1 && version <= known) return
    throw noCatalog(`Its schema version is ${version}; this version of cellstore knows up to ${known}.`)
  }

  /** Each in one transaction with its number: a crash leaves it done or not begun. */
  #upgrade(upgrades: CatalogSchema['upgrades']): void {
    const version = Number(this.meta(VERSION_KEY))
    for (const [i, ddl] of upgrades.slice(version - 1).entries()) {
      this.change(() => {
        this.database.exec(ddl)
        this.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(VERSION_KEY, String(version + i + 1))
      })
    }
  }
}

function notByWriter(): CellError {
  return new CellError('internal', 'Something tried to change a shared catalog by itself.')
}

function noCatalog(why: string, cause?: unknown): CellError {
  return new CellError('cell_quarantined', `The store's catalog can't be used. ${why}`, { cause })
}

/**
 * What was read from the catalog, kept until the catalog changes. Any change empties it, so that none can be missed:
 * changes are rare compared with reads, and reading again costs one look-up. Only what was found is kept, so that names
 * which do not exist can't fill it.
 */
export class CatalogCache<T extends object> {
  readonly #catalog: Catalog
  readonly #entries: LruCache<Readonly<T>>
  #version = 0

  /** @param max how many entries are kept; the least recently used go first */
  constructor(catalog: Catalog, max: number) {
    this.#catalog = catalog
    this.#entries = new LruCache(max)
  }

  /**
   * @param read what looks the key up in the catalog
   * @throws as {@link Catalog.assertOpen}
   */
  get(key: string, read: (key: string) => T | undefined): Readonly<T> | undefined {
    const { version } = this.#catalog
    // Inside a change only the catalog knows what holds now, and it may be rolled back.
    if (version === undefined) return this.#catalog.read(() => read(key))
    this.#catalog.assertOpen()
    if (version !== this.#version) {
      this.#entries.clear()
      this.#version = version
    }
    const known = this.#entries.get(key)
    if (known !== undefined) return known
    const found = this.#catalog.read(() => read(key))
    if (found !== undefined) this.#entries.set(key, Object.freeze(found))
    return found
  }
}

/** From when to when cells may have been made that the catalog has never heard of, in epoch milliseconds. */
interface Span {
  from: number
  until: number
}

const KEY = 'unknown_cells'
/** Nodes have clocks of their own. */
const CLOCKS_DIFFER_MS = 3_600_000

/**
 * Why the catalog may lack a cell: it was deleted and forgotten, or the catalog came back from a backup that is older than the cell,
 * or another node has made it meanwhile. The catalog keeps the times of which that can be said; of all others it is the first.
 */
export class UnknownCells {
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  /** Cells may have been made without the catalog's knowledge. */
  note({ from, until }: Span): void {
    const span = { from: from - CLOCKS_DIFFER_MS, until: until + CLOCKS_DIFFER_MS }
    // A take-over begins at 0: what it covers need not be kept, however often nodes take over.
    const others = this.#spans.filter((each) => each.from < span.from || each.until > span.until)
    this.#catalog.setMeta(KEY, JSON.stringify([...others, span]))
  }

  /** Whether a cell may exist that the catalog lacks, if it has committed something at this time (epoch milliseconds). */
  mayExist(committedAt: number): boolean {
    return this.#spans.some(({ from, until }) => committedAt >= from && committedAt <= until)
  }

  get #spans(): Span[] {
    return JSON.parse(this.#catalog.meta(KEY) ?? '[]') as Span[]
  }
}
