import type { Statement } from '../engine/sqlite.ts'
import type { Catalog } from './catalog.ts'

/** More accounts than this, and all are counted again. */
const ACCOUNTS_MAX = 10_000

interface CountedRows {
  table: string
  /** What the triggers and their counts are called. */
  kind: string
  /** Which rows count, in SQL. @param row the name of the row */
  counts?(row: string): string
}

/**
 * How many rows of a kind each account has in the catalog. They are counted once. From then on SQLite keeps the counts, in a table and
 * with triggers of the connection: so they are right inside a transaction, after one that was rolled back, and whoever
 * changes the rows.
 */
export class AccountCounts {
  readonly #catalog: Catalog
  readonly #find: Statement
  readonly #count: Statement
  readonly #keep: Statement
  readonly #forget: Statement
  #kept = 0

  constructor(catalog: Catalog, { table, kind, counts = () => 'TRUE' }: CountedRows) {
    this.#catalog = catalog
    const add = (by: '+ 1' | '- 1', row: 'new' | 'old') => `
      UPDATE account_counts SET number = number ${by}
      WHERE kind = '${kind}' AND account_id = ${row}.account_id AND ${counts(row)};`
    catalog.read(() =>
      catalog.database.exec(`
        CREATE TEMP TABLE IF NOT EXISTS account_counts (
          kind TEXT, account_id TEXT, number INTEGER NOT NULL, PRIMARY KEY (kind, account_id)
        ) STRICT, WITHOUT ROWID;
        CREATE TEMP TRIGGER IF NOT EXISTS ${kind}_inserted AFTER INSERT ON main.${table} BEGIN ${add('+ 1', 'new')} END;
        CREATE TEMP TRIGGER IF NOT EXISTS ${kind}_deleted AFTER DELETE ON main.${table} BEGIN ${add('- 1', 'old')} END;
        CREATE TEMP TRIGGER IF NOT EXISTS ${kind}_updated AFTER UPDATE ON main.${table}
        WHEN old.account_id IS NOT new.account_id OR (${counts('old')}) IS NOT (${counts('new')})
        BEGIN ${add('- 1', 'old')} ${add('+ 1', 'new')} END;`),
    )
    this.#find = catalog
      .prepare(`SELECT number FROM temp.account_counts WHERE kind = '${kind}' AND account_id = ?`)
      .pluck()
    this.#count = catalog
      .prepare(`SELECT count(*) FROM ${table} WHERE account_id = ? AND ${counts(table)}`)
      .pluck()
    this.#keep = catalog.prepare(`INSERT INTO temp.account_counts VALUES ('${kind}', ?, ?)`)
    this.#forget = catalog.prepare(`DELETE FROM temp.account_counts WHERE kind = '${kind}'`)
  }

  of(accountId: string): number {
    return this.#catalog.read(() => {
      const known = this.#find.get(accountId) as number | undefined
      if (known !== undefined) return known
      if (this.#kept++ >= ACCOUNTS_MAX) {
        this.#forget.run()
        this.#kept = 1
      }
      const count = this.#count.get(accountId) as number
      this.#keep.run(accountId, count)
      return count
    })
  }
}
