import type { LocalState } from '../../catalog/local-state.ts'

/** Damage that a verification has found in a cell's backups, and that no later one has taken back. */
export interface FoundDamage {
  /** The object that is damaged or missing. */
  version: string
  /** The part of it that did not match. */
  member: string
  /** Epoch milliseconds. */
  foundAt: number
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS backup_drills (
    cell_id TEXT PRIMARY KEY,
    drilled_at INTEGER NOT NULL -- for a cell that never was: a time in the past, so that the first drills spread out
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS backup_drills_order ON backup_drills (drilled_at);
  CREATE TABLE IF NOT EXISTS backup_damage_found (
    cell_id TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    member TEXT NOT NULL,
    found_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`

const TABLES = ['backup_drills', 'backup_damage_found']

const UNPLANNED = `
  SELECT cell_id FROM backup_retention AS stored
  WHERE stored_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM backup_drills WHERE cell_id = stored.cell_id)
  LIMIT ?`

/** Which cells were drilled when, and whose backups are damaged, in the local state: a restart changes nothing. */
export class VerificationTable {
  readonly #state: LocalState

  /** @param state has the table of retention, which knows what is stored */
  constructor(state: LocalState) {
    this.#state = state
    state.define(SCHEMA)
  }

  /** Cells with backups that take no part in the rotation yet. */
  unplanned(max: number): string[] {
    return this.#state.prepare(UNPLANNED).pluck().all(max) as string[]
  }

  plan(cellId: string, drilledAt: number): void {
    this.#state.prepare('INSERT OR IGNORE INTO backup_drills VALUES (?, ?)').run(cellId, drilledAt)
  }

  /** The cell that was drilled longest ago. */
  next(): { cellId: string; drilledAt: number } | undefined {
    return this.#state
      .prepare(
        'SELECT cell_id AS cellId, drilled_at AS drilledAt FROM backup_drills ORDER BY drilled_at LIMIT 1',
      )
      .get() as { cellId: string; drilledAt: number } | undefined
  }

  /** Cells that take part in the rotation. */
  count(): number {
    return this.#state.prepare('SELECT count(*) FROM backup_drills').pluck().get() as number
  }

  noteDrill(cellId: string, at: number): void {
    this.#state.prepare('UPDATE backup_drills SET drilled_at = ? WHERE cell_id = ?').run(at, cellId)
  }

  damage(cellId: string): FoundDamage | undefined {
    return this.#state
      .prepare('SELECT version, member, found_at AS foundAt FROM backup_damage_found WHERE cell_id = ?')
      .get(cellId) as FoundDamage | undefined
  }

  /** Cells whose backups are known to be damaged. */
  damagedCount(): number {
    return this.#state.prepare('SELECT count(*) FROM backup_damage_found').pluck().get() as number
  }

  /** Whoever has found it: the cell has the next drill, which reports the damage, and has a new base made. */
  noteDamage(cellId: string, { version, member, foundAt }: FoundDamage): void {
    this.#state
      .prepare('INSERT OR REPLACE INTO backup_damage_found VALUES (?, ?, ?, ?)')
      .run(cellId, version, member, foundAt)
    this.plan(cellId, 0) // It may be in no rotation yet.
    this.noteDrill(cellId, 0)
  }

  noteMended(cellId: string): void {
    this.#state.prepare('DELETE FROM backup_damage_found WHERE cell_id = ?').run(cellId)
  }

  remove(cellId: string): void {
    for (const table of TABLES) this.#state.prepare(`DELETE FROM ${table} WHERE cell_id = ?`).run(cellId)
  }

  /** Backups go to another place than before, where nothing is stored yet. */
  clear(): void {
    for (const table of TABLES) this.#state.prepare(`DELETE FROM ${table}`).run()
  }
}
