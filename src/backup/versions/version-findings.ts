import type { LocalState } from '../../catalog/local-state.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS backup_foreign (
    cell_id TEXT NOT NULL,
    after TEXT NOT NULL,
    through TEXT NOT NULL,
    PRIMARY KEY (cell_id, after)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS backup_damaged (
    version TEXT PRIMARY KEY,
    size_bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`

/** Versions that another state of this store made: those after one version, up to another. */
export interface ForeignVersions {
  after: string
  through: string
}

/** What this machine has found out about versions: which are damaged, and which it never made. In the local state. */
export class VersionFindings {
  readonly #state: LocalState
  constructor(state: LocalState) {
    this.#state = state
    state.define(SCHEMA)
  }

  /** Notes versions that this directory's state never made: retention leaves them to a person. */
  addForeign(cellId: string, { after, through }: ForeignVersions): void {
    this.#state.prepare('INSERT OR REPLACE INTO backup_foreign VALUES (?, ?, ?)').run(cellId, after, through)
  }

  foreign(cellId: string): ForeignVersions[] {
    return this.#state
      .prepare('SELECT after, through FROM backup_foreign WHERE cell_id = ?')
      .all(cellId) as ForeignVersions[]
  }

  /** Call when nothing of the cell is stored any more. A deleted cell's versions stay, and so does this note. */
  removeForeign(cellId: string): void {
    this.#state.prepare('DELETE FROM backup_foreign WHERE cell_id = ?').run(cellId)
  }

  /** Notes a version that a restore has proven damaged. */
  addDamaged(version: string, sizeBytes: number): void {
    this.#state.prepare('INSERT OR REPLACE INTO backup_damaged VALUES (?, ?)').run(version, sizeBytes)
  }

  /** The size of the damaged object; another size is another object. */
  damagedSize(version: string): number | undefined {
    return this.#state
      .prepare('SELECT size_bytes FROM backup_damaged WHERE version = ?')
      .pluck()
      .get(version) as number | undefined
  }

  removeDamaged(version: string): void {
    this.#state.prepare('DELETE FROM backup_damaged WHERE version = ?').run(version)
  }
}
