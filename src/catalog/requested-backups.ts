import type { Catalog } from './catalog.ts'

export const REQUESTED_BACKUPS_SCHEMA = `
  CREATE TABLE requested_backups (
    cell_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    kept INTEGER NOT NULL,
    checked_at INTEGER NOT NULL -- when the object store was last asked; 0: never
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX requested_backups_by_account ON requested_backups (account_id, checked_at);
`

/**
 * How many backups of each cell its account has requested, for the quota of kept ones. It is never too low; what retention
 * has removed is known once {@link lower} is told how many are left at most. Approximate after a power loss, and after a total
 * loss: the catalog is not stored for it alone.
 */
export class RequestedBackups {
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
    // The catalogs of earlier versions lack it.
    catalog.ensure('requested_backups', REQUESTED_BACKUPS_SCHEMA)
  }

  of(accountId: string): number {
    return this.#catalog.read(() =>
      this.#catalog
        .prepare('SELECT ifnull(sum(kept), 0) FROM requested_backups WHERE account_id = ?')
        .pluck()
        .get(accountId),
    ) as number
  }

  /** @param count of backups; negative if they were not made after all */
  add(accountId: string, cellId: string, count: number): void {
    this.#catalog.note(() =>
      this.#catalog
        .prepare(`INSERT INTO requested_backups VALUES (?, ?, max(?, 0), 0)
       ON CONFLICT (cell_id) DO UPDATE SET kept = max(kept + ?, 0)`)
        .run(cellId, accountId, count, count),
    )
  }

  /** @param versions that may be of those @param at epoch milliseconds */
  lower(cellId: string, versions: number, at: number): void {
    this.#catalog.note(() => {
      this.#catalog
        .prepare('UPDATE requested_backups SET kept = min(kept, ?), checked_at = ? WHERE cell_id = ?')
        .run(versions, at, cellId)
      this.#catalog.prepare('DELETE FROM requested_backups WHERE cell_id = ? AND kept = 0').run(cellId)
    })
  }

  /** Cells of the account whose versions were counted longest ago. */
  leastRecentlyChecked(accountId: string, count: number): string[] {
    return this.#catalog.read(() =>
      this.#catalog
        .prepare('SELECT cell_id FROM requested_backups WHERE account_id = ? ORDER BY checked_at LIMIT ?')
        .pluck()
        .all(accountId, count),
    ) as string[]
  }
}
