import { CellError } from '../errors.ts'
import type { CellDatabase } from './cell-database.ts'
import { databaseImage, type Statement } from './sqlite.ts'
import { isSqliteError } from './sqlite-errors.ts'

/** Version of the reserved tables (docs/format.md). `PRAGMA user_version` belongs to the tenant. */
const SCHEMA_VERSION = 2

const META_SCHEMA = `
  CREATE TABLE _cell_meta (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID;
  INSERT INTO _cell_meta VALUES ('schema_version', ${SCHEMA_VERSION});
`

/** SQL that makes the tables of one version those of the next, made for each cell. */
export type SchemaUpgrade = () => string

/** The tables of a cell: the engine's own, and those that the layers above add. */
export class ReservedSchema {
  readonly #tables: string
  readonly #upgrades: readonly SchemaUpgrade[]
  #image: Buffer | undefined

  /** @param upgrades of the tables of the layers above, one for each earlier version, from 1 on */
  constructor(tables = '', upgrades: readonly SchemaUpgrade[] = []) {
    this.#tables = tables
    this.#upgrades = upgrades
  }

  /** The SQL that makes the tables of a new cell. */
  get sql(): string {
    return META_SCHEMA + this.#tables
  }

  /** An empty database, for a new cell's file. */
  image(): Buffer {
    this.#image ??= databaseImage(this.sql)
    return this.#image
  }

  /** Brings the tables of an opened cell to this version, in one transaction. It fits into a full cell. */
  upgrade(database: CellDatabase): void {
    const version = versionOf(database) as number
    if (version === SCHEMA_VERSION) return
    const steps = this.#upgrades.slice(version - 1).map((upgrade) => upgrade())
    const sql = [...steps, SET_VERSION].join('\n')
    database.transaction(() => database.writeDelete(() => database.exec(sql)))
  }
}

const SET_VERSION = `UPDATE main._cell_meta SET value = ${SCHEMA_VERSION} WHERE key = 'schema_version';`

function isKnown(version: unknown): boolean {
  return Number.isInteger(version) && (version as number) >= 1 && (version as number) <= SCHEMA_VERSION
}

/** An open cell, or a connection to a database that may be one. */
type Preparing = { prepare(sql: string): Statement }

/**
 * Checks that this version can use a database, as it is or after an upgrade.
 *
 * @throws `cell_quarantined` for one of a newer version, and for one that is not a cell
 */
export function assertCell(database: Preparing): void {
  const version = versionOf(database)
  if (isKnown(version)) return
  throw new CellError(
    'cell_quarantined',
    `The schema version of the cell is ${String(version)}; this version of cellstore knows ${SCHEMA_VERSION}.`,
  )
}

function versionOf(database: Preparing): unknown {
  try {
    return database.prepare("SELECT value FROM main._cell_meta WHERE key = 'schema_version'").pluck().get()
  } catch (error) {
    // SQLite finds nothing wrong with the file: it only lacks our table.
    if (!isSqliteError(error) || error.code !== 'SQLITE_ERROR') throw error
    throw new CellError('cell_quarantined', "The cell's file is a SQLite database, but not a cell.", {
      cause: error,
    })
  }
}
