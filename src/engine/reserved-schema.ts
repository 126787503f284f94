import { CellError } from '../errors.ts'
import { databaseImage, type Statement } from './sqlite.ts'
import { isSqliteError } from './sqlite-errors.ts'

/** Version of the reserved tables (docs/format.md). `PRAGMA user_version` belongs to the tenant. */
const SCHEMA_VERSION = 1

const META_SCHEMA = `
  CREATE TABLE _cell_meta (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID;
  INSERT INTO _cell_meta VALUES ('schema_version', ${SCHEMA_VERSION});
`

/** The tables of a new cell: the engine's own, and those that the layers above add. */
export class ReservedSchema {
  readonly #tables: string
  #image: Buffer | undefined

  constructor(...tables: string[]) {
    this.#tables = tables.join('\n')
  }

  /** An empty database, for a new cell's file. */
  image(): Buffer {
    this.#image ??= databaseImage(META_SCHEMA + this.#tables)
    return this.#image
  }
}

/** An open cell, or a connection to a database that may be one. */
type Preparing = { prepare(sql: string): Statement }

/**
 * Checks that this version can use a database.
 *
 * @throws `cell_quarantined` for one of a newer version, and for one that is not a cell
 */
export function assertCell(database: Preparing): void {
  const version = versionOf(database)
  if (version === SCHEMA_VERSION) return
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
