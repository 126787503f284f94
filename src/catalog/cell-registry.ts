import { cutPage, decodeCursor, pageLimit, parseRowNumber } from '../base/paging.ts'
import { isCellId } from '../base/store-paths.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'
import type { Catalog } from './catalog.ts'
import { CatalogCache } from './catalog-cache.ts'

/** A cell as the catalog knows it. */
export interface CellRecord {
  id: string
  /** The account it belongs to; null for one that only the library uses. */
  accountId: string | null
  /** For people; null if it has none. */
  name: string | null
  /** Epoch milliseconds. */
  createdAt: number
  /** Epoch milliseconds; null if it was not deleted. Its backups outlive it. */
  deletedAt: number | null
  /** Null: the store's setting holds. */
  durability: Durability | null
}

export interface CellListOptions {
  /** Only this account's cells. */
  accountId?: string | undefined
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Cells on the page; 100 by default, at most the store's limit `pageMax`. */
  limit?: number | undefined
}

export interface CellPage {
  /** Oldest first. */
  cells: CellRecord[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

export const CELLS_SCHEMA = `
  CREATE TABLE cells (
    number INTEGER PRIMARY KEY, -- order of creation: what listings page by
    id TEXT NOT NULL UNIQUE,
    account_id TEXT,
    name TEXT,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    durability TEXT
  ) STRICT;
  CREATE INDEX cells_by_account ON cells (account_id, number) WHERE deleted_at IS NULL;
`

const COLUMNS = 'id, account_id, name, created_at, deleted_at, durability'
/** About 2 MB of records: each request looks its cell up. */
const RECORDS_KEPT_MAX = 10_000
/** An account that has many cells is not counted again for each new one. */
const COUNTS_KEPT_MAX = 10_000

type Row = [string, string | null, string | null, number, number | null, Durability | null]

/** The cells of the store. Deleted ones are kept: their backups still belong to their account. */
export class CellRegistry {
  readonly #catalog: Catalog
  readonly #find: Statement
  readonly #insert: Statement
  readonly #setDeleted: Statement
  readonly #eraseName: Statement
  readonly #page: Statement
  readonly #accountPage: Statement
  readonly #known: CatalogCache<CellRecord>
  readonly #count: Statement
  readonly #countAll: Statement
  /** Cells of an account, as far as they were counted. */
  readonly #counts = new Map<string, number>()
  readonly pageMax: number

  constructor(catalog: Catalog, pageMax: number) {
    this.#catalog = catalog
    this.#known = new CatalogCache(catalog, RECORDS_KEPT_MAX)
    this.pageMax = pageMax
    this.#find = catalog.prepare(`SELECT ${COLUMNS} FROM cells WHERE id = ?`).raw()
    this.#insert = catalog.prepare(`INSERT INTO cells (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`)
    this.#setDeleted = catalog.prepare('UPDATE cells SET deleted_at = ? WHERE id = ?')
    this.#eraseName = catalog.prepare('UPDATE cells SET name = NULL WHERE id = ?')
    this.#countAll = catalog.prepare('SELECT count(*) FROM cells WHERE deleted_at IS NULL').pluck()
    this.#count = catalog
      .prepare('SELECT count(*) FROM cells WHERE deleted_at IS NULL AND account_id = ?')
      .pluck()
    const page = `SELECT number, ${COLUMNS} FROM cells WHERE deleted_at IS NULL AND number > ?`
    this.#page = catalog.prepare(`${page} ORDER BY number LIMIT ?`).raw()
    this.#accountPage = catalog.prepare(`${page} AND account_id = ? ORDER BY number LIMIT ?`).raw()
  }

  find(id: string): Readonly<CellRecord> | undefined {
    return this.#known.get(id, this.#read)
  }

  /** @throws `cell_not_found` for a cell that does not exist or was deleted */
  require(id: string): Readonly<CellRecord> {
    const record = this.find(id)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    return record
  }

  /** How many cells are not deleted. */
  countAll(): number {
    return this.#catalog.read(() => this.#countAll.get()) as number
  }

  /** How many cells of the account are not deleted. */
  count(accountId: string): number {
    let count = this.#counts.get(accountId)
    if (count === undefined) {
      count = this.#catalog.read(() => this.#count.get(accountId)) as number
      if (this.#counts.size >= COUNTS_KEPT_MAX) this.#counts.clear()
      this.#counts.set(accountId, count)
    }
    return count
  }

  /** Adds a cell. @param also runs in the same transaction */
  insert({ id, accountId, name, createdAt, deletedAt, durability }: CellRecord, also?: () => void): void {
    this.#catalog.change(() => {
      this.#insert.run(id, accountId, name, createdAt, deletedAt, durability)
      also?.()
    })
    if (deletedAt === null) this.#counted(accountId, 1)
  }

  /** Marks a cell that exists as deleted. @param at epoch milliseconds */
  delete(id: string, at: number): void {
    const { accountId } = this.require(id)
    this.#catalog.changeDelete(() => this.#setDeleted.run(at, id))
    this.#counted(accountId, -1)
  }

  /** What is left of a deleted cell shows no tenant's text. */
  eraseName(id: string): void {
    this.#catalog.changeDelete(() => this.#eraseName.run(id))
  }

  /** A deleted cell exists again. */
  undelete({ id, accountId }: CellRecord): void {
    this.#catalog.change(() => this.#setDeleted.run(null, id))
    this.#counted(accountId, 1)
  }

  /** Cells that exist, in the order of their creation. @throws `invalid_request` for a bad cursor or limit */
  list({ accountId, cursor, limit }: CellListOptions = {}): CellPage {
    const count = pageLimit(limit, this.pageMax)
    const after = cursor === undefined ? 0 : decodeCursor(cursor, parseRowNumber)
    const rows = this.#catalog.read(() =>
      accountId === undefined
        ? this.#page.all(after, count + 1)
        : this.#accountPage.all(after, accountId, count + 1),
    ) as [number, ...Row][]
    const { page, nextCursor } = cutPage(rows, count, ([number]) => String(number))
    return { cells: page.map(([, ...row]) => toRecord(row)), nextCursor }
  }

  #counted(accountId: string | null, change: number): void {
    const count = accountId === null ? undefined : this.#counts.get(accountId)
    if (accountId !== null && count !== undefined) this.#counts.set(accountId, count + change)
  }

  readonly #read = (id: string): CellRecord | undefined => {
    const row = isCellId(id) ? (this.#find.get(id) as Row | undefined) : undefined
    return row && toRecord(row)
  }
}

export function cellNotFound(): CellError {
  return new CellError('cell_not_found', 'There is no such cell.')
}

function toRecord([id, accountId, name, createdAt, deletedAt, durability]: Row): CellRecord {
  return { id, accountId, name, createdAt, deletedAt, durability }
}
