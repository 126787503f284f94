import type { Catalog } from '../../catalog/catalog.ts'
import type { SharedRow } from '../../catalog/shared-rows.ts'

/** A row, and the change that has left it so. */
export interface LoggedRow extends SharedRow {
  version: number
}

/** A change of the catalog: they are numbered without gaps. */
export interface LoggedVersion {
  version: number
  /** Random: the same number can be given again after PostgreSQL has lost the first. */
  id: string
}

/** What a node can hand in of the end of the log. */
export interface LogEnd {
  rows: LoggedRow[]
  versions: LoggedVersion[]
}

const TABLES = `
  CREATE TABLE cluster_rows (
    version INTEGER NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, content TEXT, PRIMARY KEY (version, name, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE cluster_versions (version INTEGER PRIMARY KEY, id TEXT NOT NULL) STRICT;
`
const VERSION_KEY = 'cluster_version'
/** How many changes the catalog had had by then: more, and somebody has changed it beside the cluster. */
const CHANGES_KEY = 'cluster_changes'
/** From the next version on, the end of the log is whole. */
const FLOOR_KEY = 'cluster_floor'
/** So many changes are kept. */
const CHANGES_KEPT = 10_000
const LOAD_CACHE_KIB = 131_072

/** A node's catalog as a copy of the cluster's: how far it has come, and the last changes that it has seen. */
export class Replica {
  readonly catalog: Catalog
  #version: number
  /** The page cache as it was before a {@link load}. */
  #cacheSize: number | undefined

  constructor(catalog: Catalog) {
    this.catalog = catalog
    catalog.ensure('cluster_versions', TABLES)
    const isAsItWas = catalog.meta(CHANGES_KEY) === String(catalog.changes)
    this.#version = isAsItWas ? Replica.versionOf(catalog) : 0
  }

  /** The newest change of the cluster's that a catalog had when it last took part; 0: it never did, or was not whole. */
  static versionOf(catalog: Catalog): number {
    return Number(catalog.meta(VERSION_KEY) ?? 0)
  }

  /** The newest change that the catalog has; 0: none of the cluster's. It only goes up, but for {@link load}. */
  get version(): number {
    return this.#version
  }

  /** Undefined if it is not known any more. */
  idOf(version: number): string | undefined {
    return this.#read('SELECT id FROM cluster_versions WHERE version = ?', version)[0]?.[0] as
      | string
      | undefined
  }

  /**
   * Takes in changes, and resolves once they are on disk.
   *
   * @param rows as the newest of the changes has left them; those that the catalog has had already are passed over
   * @param versions all of them from the catalog's own on
   */
  async absorb({ rows, versions }: LogEnd): Promise<void> {
    const before = this.#version
    const newVersions = versions.filter(({ version }) => version > before)
    const last = newVersions.at(-1)
    if (last === undefined) return
    const newRows = rows.filter(({ version }) => version > before)
    const run = (sql: string, ...values: unknown[]) => this.catalog.prepare(sql).run(...values)
    const isWhole = newVersions[0]?.version === before + 1
    const absorbed = this.catalog.absorb(newRows, () => {
      for (const { version, id } of newVersions)
        run('INSERT OR REPLACE INTO cluster_versions VALUES (?, ?)', version, id)
      for (const { version, table, key, content } of newRows)
        run('INSERT OR REPLACE INTO cluster_rows VALUES (?, ?, ?, ?)', version, table, key, content)
      const floor = last.version - CHANGES_KEPT
      run('DELETE FROM cluster_rows WHERE version <= ?', floor)
      run('DELETE FROM cluster_versions WHERE version <= ?', floor)
      if (!isWhole) this.#setMeta(FLOOR_KEY, before)
      this.#setMeta(VERSION_KEY, last.version)
      this.#setMeta(CHANGES_KEY, this.catalog.changes)
    })
    this.#version = last.version
    await absorbed
  }

  /** Begins anew, with all rows of the cluster: some at a time, in the order of their versions. */
  async load(rows: readonly LoggedRow[], isFirst: boolean): Promise<void> {
    const pragma = this.catalog.prepare('PRAGMA cache_size').pluck()
    this.#cacheSize ??= this.catalog.read(() => pragma.get()) as number
    // The rows come in the order of none of the indexes: pages that do not fit are written again and again.
    this.catalog.database.exec(`PRAGMA cache_size = -${LOAD_CACHE_KIB}`)
    await this.catalog.absorb(rows, () => {
      if (!isFirst) return
      this.catalog.removeShared()
      this.#forgetEnd()
      this.#setMeta(VERSION_KEY, 0)
    })
    if (isFirst) this.#version = 0
  }

  /** All that there is up to a version is in the catalog: what was loaded, or what the cluster was begun with. */
  async loaded({ version, id }: LoggedVersion): Promise<void> {
    await this.catalog.absorb([], () => {
      this.#forgetEnd()
      this.catalog.prepare('INSERT OR REPLACE INTO cluster_versions VALUES (?, ?)').run(version, id)
      this.#setMeta(FLOOR_KEY, version)
      this.#setMeta(VERSION_KEY, version)
      this.#setMeta(CHANGES_KEY, this.catalog.changes)
    })
    this.#version = version
    if (this.#cacheSize !== undefined) this.catalog.database.exec(`PRAGMA cache_size = ${this.#cacheSize}`)
    this.#cacheSize = undefined
  }

  /** What came after a version; undefined if some of it is kept no longer. */
  endAfter(version: number): LogEnd | undefined {
    const floor = Math.max(Number(this.catalog.meta(FLOOR_KEY) ?? 0), this.#version - CHANGES_KEPT)
    if (version < floor) return undefined
    const rows = this.#read('SELECT version, name, key, content FROM cluster_rows WHERE version > ?', version)
    const versions = this.#read(
      'SELECT version, id FROM cluster_versions WHERE version > ? ORDER BY version',
      version,
    )
    return {
      rows: rows.map(([version, table, key, content]) => ({ version, table, key, content }) as LoggedRow),
      versions: versions.map(([version, id]) => ({ version, id }) as LoggedVersion),
    }
  }

  #forgetEnd(): void {
    for (const table of ['cluster_rows', 'cluster_versions'])
      this.catalog.prepare(`DELETE FROM ${table}`).run()
  }

  #read(sql: string, ...values: unknown[]): unknown[][] {
    return this.catalog.read(() =>
      this.catalog
        .prepare(sql)
        .raw()
        .all(...values),
    ) as unknown[][]
  }

  #setMeta(key: string, value: number): void {
    this.catalog.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(key, String(value))
  }
}
