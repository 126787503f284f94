import { CellError } from '../errors.ts'
import type { CellDatabase } from './cell-database.ts'
import { databaseImage } from './sqlite.ts'

/** Version of the host tables (docs/format.md). `PRAGMA user_version` belongs to the tenant. */
const SCHEMA_VERSION = 1

const META_SCHEMA = `
  CREATE TABLE _cell_meta (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID;
  INSERT INTO _cell_meta VALUES ('schema_version', ${SCHEMA_VERSION});
`

/** The tables that a cell begins with: the engine's own, and those that the layers above add. */
export class HostSchema {
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

  /**
   * Makes sure that an opened file is one this version can use.
   *
   * @throws `cell_quarantined` for one that a newer version has written
   */
  check(database: CellDatabase): void {
    const version = database
      .prepare("SELECT value FROM main._cell_meta WHERE key = 'schema_version'")
      .pluck()
      .get()
    if (version === SCHEMA_VERSION) return
    throw new CellError(
      'cell_quarantined',
      `The cell is of schema version ${String(version)}; this version of cellstore knows ${SCHEMA_VERSION}.`,
    )
  }
}
