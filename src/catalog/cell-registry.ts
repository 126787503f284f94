import { isCellId } from '../base/files/store-paths.ts'
import { checkOptions, FLAG, maybe, orNull, type Shape, TEXT } from '../base/options/option-shapes.ts'
import { cutPage, PAGING, type Paged, paged, pageLimit } from '../base/paging.ts'
import { RowCursors } from '../base/row-cursor.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'
import { AccountCounts } from './account-counts.ts'
import { type Catalog, CatalogCache } from './catalog.ts'

/** A cell as the catalog knows it. */
export interface CellRecord {
  id: string
  /** The account it belongs to; null for one that only the library uses. */
  accountId: string | null
  /** Unique among the account's cells; null if it has none. */
  name: string | null
  /** Epoch milliseconds. */
  createdAt: number
  /** Epoch milliseconds; null if it was not deleted. Its backups outlive it. */
  deletedAt: number | null
  /** Null: the store's setting holds. */
  durability: Durability | null
}

/** A cell that exists from now on. */
export type NewCellRecord = Omit<CellRecord, 'deletedAt'>

/** Which cells, and how many of them. */
export interface CellListOptions {
  /** Only this account's cells; null: only those without an account. */
  accountId?: string | null
  /** Only the cells of this name: at most one of each account, and one without. `store.findCellByName()` looks one up. */
  name?: string
  /** Those that were deleted, in place of those that exist. A restore brings such a cell back as long as it has backups. */
  deleted?: boolean | undefined
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Cells on the page; 100 by default, at most the store's limit `pageMax`. */
  limit?: number | undefined
}

const LIST: Shape<CellListOptions> = {
  accountId: orNull(TEXT),
  name: TEXT,
  deleted: maybe(FLAG),
  ...PAGING,
}

/** A page of records of cells. */
export interface RecordPage {
  /** Oldest first. */
  cells: CellRecord[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

/** The catalogs of earlier versions lack it: see {@link Catalog.ensure}. */
const DELETED_CELLS_SCHEMA =
  'CREATE INDEX deleted_cells ON cells (account_id, deleted_at) WHERE deleted_at IS NOT NULL;'

/** For pages of the deleted cells of an account. */
const DELETED_PAGES_SCHEMA =
  'CREATE INDEX deleted_pages ON cells (account_id, number) WHERE deleted_at IS NOT NULL;'

/** For the deleted cells of a name. */
const DELETED_NAMES_SCHEMA =
  'CREATE INDEX deleted_names ON cells (name, account_id, number) WHERE deleted_at IS NOT NULL AND name IS NOT NULL;'

/** Not unique: in directories of earlier versions several cells may have one name. */
const NAMED_CELLS_SCHEMA =
  'CREATE INDEX named_cells ON cells (name, account_id, number) WHERE deleted_at IS NULL AND name IS NOT NULL;'

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
  ${DELETED_CELLS_SCHEMA}
  ${DELETED_PAGES_SCHEMA}
  ${DELETED_NAMES_SCHEMA}
  ${NAMED_CELLS_SCHEMA}
`

/** Cells of one name and account that an error names. */
const NAMESAKES_MAX = 20
/** The oldest deleted ones of an account. */
const FORGET = `
  DELETE FROM cells WHERE number IN (
    SELECT number FROM cells WHERE account_id = ? AND deleted_at IS NOT NULL ORDER BY deleted_at LIMIT ?)`
const NAMED = `
  SELECT id FROM cells WHERE deleted_at IS NULL AND name = ? AND account_id IS ? ORDER BY number LIMIT ${NAMESAKES_MAX}`
const COLUMNS = 'id, account_id, name, created_at, deleted_at, durability'
/** About 2 MB of records: each request looks its cell up. */
const RECORDS_KEPT_MAX = 10_000

type NumberedRow = [number, ...Row]
/** A page of those that exist, or of those that were deleted. @param after the number of the last one before it */
type ReadPage = (
  after: number,
  count: number,
  accountId: string | null | undefined,
  name: string | undefined,
) => NumberedRow[]
type Row = [string, string | null, string | null, number, number | null, Durability | null]

interface CellRegistryLimits {
  /** Cells on a page of a listing. */
  pageMax: number
  /** Deleted cells of an account that are kept; undefined: all. */
  deletedMax: number | undefined
}

/**
 * The cells of the store. Deleted ones are kept, because their backups still belong to their account. Of an account that
 * deletes many, the newest are kept: from then on the backups themselves say whose the others are, and a restore records
 * the cell again.
 */
export class CellRegistry {
  readonly #catalog: Catalog
  readonly #setDeleted: Statement
  readonly #setName: Statement
  readonly #pages: ReadPage
  readonly #deletedPages: ReadPage
  readonly #known: CatalogCache<CellRecord>
  readonly #existing: AccountCounts
  readonly #deleted: AccountCounts
  readonly #limits: CellRegistryLimits
  readonly #cursors: RowCursors

  constructor(catalog: Catalog, limits: CellRegistryLimits) {
    this.#catalog = catalog
    this.#known = new CatalogCache(catalog, RECORDS_KEPT_MAX)
    this.#limits = limits
    this.#cursors = new RowCursors(catalog.storeId, 'cells')
    catalog.ensure('deleted_cells', DELETED_CELLS_SCHEMA)
    catalog.ensure('deleted_pages', DELETED_PAGES_SCHEMA)
    catalog.ensure('deleted_names', DELETED_NAMES_SCHEMA)
    catalog.ensure('named_cells', NAMED_CELLS_SCHEMA)
    this.#setDeleted = catalog.prepare('UPDATE cells SET deleted_at = ? WHERE id = ?')
    const table = 'cells'
    this.#existing = new AccountCounts(catalog, {
      table,
      kind: 'existing_cells',
      counts: (row) => `${row}.deleted_at IS NULL`,
    })
    this.#deleted = new AccountCounts(catalog, {
      table,
      kind: 'deleted_cells',
      counts: (row) => `${row}.deleted_at IS NOT NULL`,
    })
    this.#setName = catalog.prepare('UPDATE cells SET name = ? WHERE id = ?')
    this.#pages = this.#pagesOf('deleted_at IS NULL')
    this.#deletedPages = this.#pagesOf('deleted_at IS NOT NULL')
  }

  get pageMax(): number {
    return this.#limits.pageMax
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
    return this.#catalog.read(() =>
      this.#catalog.prepare('SELECT count(*) FROM cells WHERE deleted_at IS NULL').pluck().get(),
    ) as number
  }

  /** How many cells of the account are not deleted. */
  count(accountId: string): number {
    return this.#existing.of(accountId)
  }

  /**
   * The cells of a name, oldest first: of an account, or of none. There are several only where an earlier version has made
   * them.
   */
  named(accountId: string | null, name: string): string[] {
    return this.#catalog.read(() => this.#catalog.prepare(NAMED).pluck().all(name, accountId)) as string[]
  }

  /** @param except the cell that may have the name. @throws `name_taken` */
  checkName(accountId: string | null, name: string | null, except?: string): void {
    const taken = name === null ? undefined : this.named(accountId, name).find((id) => id !== except)
    if (taken !== undefined) throw nameTaken(accountId, taken)
  }

  /** @param name null: it has none from now on. @throws `cell_not_found`, `name_taken` */
  rename(id: string, name: string | null): void {
    const record = this.require(id)
    if (record.name === name) return
    this.checkName(record.accountId, name, id)
    this.#catalog.change(() => this.#setName.run(name, id))
  }

  /** Adds a cell. @param also runs in the same transaction */
  insert({ id, accountId, name, createdAt, durability }: NewCellRecord, also?: () => void): void {
    this.#catalog.change(() => {
      this.#catalog
        .prepare(`INSERT INTO cells (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`)
        .run(id, accountId, name, createdAt, null, durability)
      also?.()
    })
  }

  /** Marks a cell that exists as deleted. @param at epoch milliseconds */
  delete(id: string, at: number): void {
    const { accountId } = this.require(id)
    const surplus = this.#deletedSurplus(accountId)
    this.#catalog.changeDelete(() => {
      this.#setDeleted.run(at, id)
      if (surplus > 0) this.#catalog.prepare(FORGET).run(accountId, surplus)
    })
  }

  /** What is left of a deleted cell shows no tenant's text. */
  eraseName(id: string): void {
    this.#catalog.changeDelete(() => this.#setName.run(null, id))
  }

  /** A deleted cell exists again. @param name it may have lost its name to another one meanwhile */
  undelete({ id }: Pick<CellRecord, 'id'>, name: string | null): void {
    this.#catalog.change(() => {
      this.#setName.run(name, id)
      this.#setDeleted.run(null, id)
    })
  }

  /** Cells that exist, or that were deleted, in the order of their creation. @throws `invalid_request` for a bad cursor or limit */
  list(options: CellListOptions = {}): Paged<RecordPage, CellRecord> {
    return paged<RecordPage, CellRecord, RecordPage>(this.#list(options), {
      entries: ({ cells }) => cells,
      next: (cursor) => this.#list({ ...options, cursor }),
    })
  }

  #list(options: CellListOptions): RecordPage {
    checkOptions(options, LIST)
    const { accountId, name, deleted, cursor, limit } = options
    const count = pageLimit(limit, this.#limits.pageMax)
    const after = cursor === undefined ? 0 : this.#cursors.decode(cursor)
    const read = deleted === true ? this.#deletedPages : this.#pages
    const rows = this.#catalog.read(() => read(after, count + 1, accountId, name))
    const { page, nextCursor } = cutPage(rows, count, ([number]) => this.#cursors.encode(number))
    return { cells: page.map(([, ...row]) => toRecord(row)), nextCursor }
  }

  #pagesOf(which: string): ReadPage {
    const page = `SELECT number, ${COLUMNS} FROM cells WHERE ${which} AND number > ?`
    const prepare = (filter: string) =>
      this.#catalog.prepare(`${page} ${filter} ORDER BY number LIMIT ?`).raw()
    const all = prepare('')
    const ofAccount = prepare('AND account_id IS ?')
    const named = prepare('AND name = ?')
    const namedOfAccount = prepare('AND account_id IS ? AND name = ?')
    return (after, count, accountId, name) => {
      if (accountId !== undefined && name !== undefined)
        return namedOfAccount.all(after, accountId, name, count) as NumberedRow[]
      if (accountId !== undefined) return ofAccount.all(after, accountId, count) as NumberedRow[]
      if (name !== undefined) return named.all(after, name, count) as NumberedRow[]
      return all.all(after, count) as NumberedRow[]
    }
  }

  /** How many deleted cells of the account are too many once another one is deleted. */
  #deletedSurplus(accountId: string | null): number {
    const { deletedMax } = this.#limits
    if (accountId === null || deletedMax === undefined) return 0
    return Math.max(0, this.#deleted.of(accountId) + 1 - deletedMax)
  }

  readonly #read = (id: string): CellRecord | undefined => {
    const row = isCellId(id)
      ? (this.#catalog.prepare(`SELECT ${COLUMNS} FROM cells WHERE id = ?`).raw().get(id) as Row | undefined)
      : undefined
    return row && toRecord(row)
  }
}

export function cellNotFound(): CellError {
  return new CellError('cell_not_found', 'There is no such cell.')
}

function nameTaken(accountId: string | null, id: string): CellError {
  const has = accountId === null ? 'There is' : 'The account has'
  const message = `${has} a cell of this name already: ${id}. Use that one, or choose another name.`
  return new CellError('name_taken', message, { field: 'name' })
}

function toRecord([id, accountId, name, createdAt, deletedAt, durability]: Row): CellRecord {
  return { id, accountId, name, createdAt, deletedAt, durability }
}
