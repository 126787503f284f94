import type { LocalState } from '../../catalog/local-state.ts'
import type { Statement } from '../../engine/sqlite.ts'

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

const UNPLANNED = `
  SELECT cell_id FROM backup_retention AS stored
  WHERE stored_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM backup_drills WHERE cell_id = stored.cell_id)
  LIMIT ?`

/** Which cells were drilled when, and whose backups are damaged, in the local state: a restart changes nothing. */
export class VerificationTable {
  readonly #unplanned: Statement
  readonly #plan: Statement
  readonly #next: Statement
  readonly #count: Statement
  readonly #noteDrill: Statement
  readonly #damage: Statement
  readonly #damaged: Statement
  readonly #noteDamage: Statement
  readonly #mended: Statement
  readonly #removals: readonly Statement[]
  readonly #clearings: readonly Statement[]

  /** @param state has the table of retention, which knows what is stored */
  constructor(state: LocalState) {
    state.define(SCHEMA)
    this.#unplanned = state.prepare(UNPLANNED).pluck()
    this.#plan = state.prepare('INSERT OR IGNORE INTO backup_drills VALUES (?, ?)')
    this.#next = state.prepare(
      'SELECT cell_id AS cellId, drilled_at AS drilledAt FROM backup_drills ORDER BY drilled_at LIMIT 1',
    )
    this.#count = state.prepare('SELECT count(*) FROM backup_drills').pluck()
    this.#noteDrill = state.prepare('UPDATE backup_drills SET drilled_at = ? WHERE cell_id = ?')
    this.#damage = state.prepare(
      'SELECT version, member, found_at AS foundAt FROM backup_damage_found WHERE cell_id = ?',
    )
    this.#damaged = state.prepare('SELECT count(*) FROM backup_damage_found').pluck()
    this.#noteDamage = state.prepare('INSERT OR REPLACE INTO backup_damage_found VALUES (?, ?, ?, ?)')
    this.#mended = state.prepare('DELETE FROM backup_damage_found WHERE cell_id = ?')
    const tables = ['backup_drills', 'backup_damage_found']
    this.#removals = tables.map((table) => state.prepare(`DELETE FROM ${table} WHERE cell_id = ?`))
    this.#clearings = tables.map((table) => state.prepare(`DELETE FROM ${table}`))
  }

  /** Cells with backups that take no part in the rotation yet. */
  unplanned(max: number): string[] {
    return this.#unplanned.all(max) as string[]
  }

  plan(cellId: string, drilledAt: number): void {
    this.#plan.run(cellId, drilledAt)
  }

  /** The cell that was drilled longest ago. */
  next(): { cellId: string; drilledAt: number } | undefined {
    return this.#next.get() as { cellId: string; drilledAt: number } | undefined
  }

  /** Cells that take part in the rotation. */
  count(): number {
    return this.#count.get() as number
  }

  noteDrill(cellId: string, at: number): void {
    this.#noteDrill.run(at, cellId)
  }

  damage(cellId: string): FoundDamage | undefined {
    return this.#damage.get(cellId) as FoundDamage | undefined
  }

  /** Cells whose backups are known to be damaged. */
  damagedCount(): number {
    return this.#damaged.get() as number
  }

  /** Whoever has found it: the cell has the next drill, which reports the damage, and has a new base made. */
  noteDamage(cellId: string, { version, member, foundAt }: FoundDamage): void {
    this.#noteDamage.run(cellId, version, member, foundAt)
    this.plan(cellId, 0) // It may be in no rotation yet.
    this.noteDrill(cellId, 0)
  }

  noteMended(cellId: string): void {
    this.#mended.run(cellId)
  }

  remove(cellId: string): void {
    for (const removal of this.#removals) removal.run(cellId)
  }

  /** Backups go to another place than before, where nothing is stored yet. */
  clear(): void {
    for (const clearing of this.#clearings) clearing.run()
  }
}
