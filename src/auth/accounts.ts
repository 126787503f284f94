import { randomUUID } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { checkDisplayName } from '../base/options/display-name.ts'
import { checkOptions, group, judgedByReader, maybe, type Shape } from '../base/options/option-shapes.ts'
import { cutPage, decodeCursor, encodeCursor, PAGING, pageLimit } from '../base/paging.ts'
import { QUOTA_OVERRIDES, type QuotaOverrides } from '../catalog/account-quotas.ts'
import { type Catalog, CatalogCache } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'

/** An account: the owner of cells and API keys. */
export interface AccountRecord {
  id: string
  /** For people; null if it has none. */
  name: string | null
  /** Epoch milliseconds. */
  createdAt: number
  /** Epoch milliseconds since which every request with its keys is refused; null if it is not suspended. */
  suspendedAt: number | null
  /** What it has in place of the store's quotas. */
  quotas: Readonly<QuotaOverrides>
}

/** Which accounts, and how many of them. */
export interface AccountListOptions {
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Accounts on the page; 100 by default, at most the store's limit `pageMax`. */
  limit?: number | undefined
}

/** A page of the accounts of a store. */
export interface AccountPage {
  /** Oldest first. */
  accounts: AccountRecord[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

type CreateOptions = NonNullable<Parameters<Accounts['create']>[0]>
const CREATE: Shape<CreateOptions> = {
  name: maybe(judgedByReader('a name')),
  quotas: maybe(group(QUOTA_OVERRIDES)),
}

const COLUMNS = 'id, name, created_at, suspended_at, quotas'
/** About 2 MB of records: each request looks its account up. */
const RECORDS_KEPT_MAX = 10_000

type Row = [
  id: string,
  name: string | null,
  createdAt: number,
  suspendedAt: number | null,
  quotas: string | null,
]

/** Cells and API keys belong to accounts. An account never sees what belongs to another one. */
export class Accounts {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #pageMax: number
  readonly #insert: Statement
  readonly #find: Statement
  readonly #all: Statement
  readonly #page: Statement
  readonly #setSuspended: Statement
  readonly #setQuotas: Statement
  readonly #known: CatalogCache<AccountRecord>

  /** @internal Comes with a store, as `store.accounts`. */
  constructor(catalog: Catalog, clock: Clock, pageMax: number) {
    this.#catalog = catalog
    this.#clock = clock
    this.#pageMax = pageMax
    this.#known = new CatalogCache(catalog, RECORDS_KEPT_MAX)
    this.#insert = catalog.prepare(`INSERT INTO accounts (${COLUMNS}) VALUES (?, ?, ?, NULL, ?)`)
    this.#find = catalog.prepare(`SELECT ${COLUMNS} FROM accounts WHERE id = ?`).raw()
    this.#all = catalog.prepare(`SELECT ${COLUMNS} FROM accounts ORDER BY created_at, id`).raw()
    this.#page = catalog
      .prepare(
        `SELECT ${COLUMNS} FROM accounts WHERE (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`,
      )
      .raw()
    this.#setSuspended = catalog.prepare('UPDATE accounts SET suspended_at = ? WHERE id = ?')
    this.#setQuotas = catalog.prepare('UPDATE accounts SET quotas = ? WHERE id = ?')
  }

  /**
   * Makes an account; it is on disk when this returns.
   *
   * @param options.name for people, at most 255 characters; need not be unique
   * @param options.quotas see {@link setQuotas}
   * @throws `invalid_request` for a bad name or quota, `disk_full`, `store_closed`
   */
  create(options: { name?: string | undefined; quotas?: QuotaOverrides | undefined } = {}): AccountRecord {
    checkOptions(options, CREATE)
    const { name, quotas = {} } = options
    checkDisplayName(name)
    const id = randomUUID()
    this.#catalog.change(() => this.#insert.run(id, name ?? null, this.#clock.now(), JSON.stringify(quotas)))
    return this.require(id)
  }

  /** @returns undefined if there is no such account */
  find(id: string): Readonly<AccountRecord> | undefined {
    return this.#known.get(id, this.#read)
  }

  /** @throws `account_not_found` */
  require(id: string): AccountRecord {
    const record = this.find(id)
    if (record !== undefined) return { ...record }
    throw new CellError(
      'account_not_found',
      'There is no account with this id. `cellstore accounts list` shows the ids.',
    )
  }

  /** All accounts, oldest first. */
  list(): AccountRecord[] {
    return (this.#catalog.read(() => this.#all.all()) as Row[]).map(toRecord)
  }

  /** One page of {@link list}. @throws `invalid_request` for a bad cursor or limit */
  page(options: AccountListOptions = {}): AccountPage {
    checkOptions(options, PAGING)
    const { cursor, limit } = options
    const count = pageLimit(limit, this.#pageMax)
    const [createdAt, id] = cursor === undefined ? [-1, ''] : decodeCursor(cursor, parsePosition)
    const rows = this.#catalog.read(() => this.#page.all(createdAt, id, count + 1)) as Row[]
    const { page, nextCursor } = cutPage(rows, count, ([id, , createdAt]) =>
      encodeCursor(`${createdAt} ${id}`),
    )
    return { accounts: page.map(toRecord), nextCursor }
  }

  /**
   * Refuses every request with a key of the account from now on, also one that waits: 403 `account_suspended`. Its data and
   * its backups stay, and scheduled backups go on. The library's own calls work. A repeat answers the same.
   *
   * @throws `account_not_found`, `store_closed`
   */
  suspend(id: string): AccountRecord {
    const since = this.require(id).suspendedAt ?? this.#clock.now()
    // As a revocation, it has room in a full catalog, and a repeat is told to all nodes again.
    this.#catalog.changeDelete(() => this.#setSuspended.run(since, id))
    return this.require(id)
  }

  /** Ends a suspension. A repeat changes nothing. @throws `account_not_found`, `disk_full`, `store_closed` */
  resume(id: string): AccountRecord {
    if (this.require(id).suspendedAt !== null) {
      this.#catalog.change(() => this.#setSuspended.run(null, id))
    }
    return this.require(id)
  }

  /**
   * Gives an account quotas of its own, all at once: where one is left out, the store's holds. They hold from the next
   * request on. What an account has beyond a lower quota stays; it gets no more.
   *
   * @param quotas whole numbers above 0
   * @throws `account_not_found`, `invalid_request`, `disk_full`, `store_closed`
   */
  setQuotas(id: string, quotas: QuotaOverrides): AccountRecord {
    checkOptions(quotas, QUOTA_OVERRIDES)
    this.require(id)
    this.#catalog.change(() => this.#setQuotas.run(JSON.stringify(quotas), id))
    return this.require(id)
  }

  /** {@link AccountRecord.quotas}; costs a look-up in memory. */
  quotasOf(id: string): QuotaOverrides | undefined {
    return this.find(id)?.quotas
  }

  readonly #read = (id: string): AccountRecord | undefined => {
    const row = typeof id === 'string' ? (this.#find.get(id) as Row | undefined) : undefined
    return row && toRecord(row)
  }
}

/** @throws `account_not_found`, since what belongs to it could be used for nothing; `invalid_request` for what is no text */
export function assertAccount(accounts: Accounts, accountId: string): void {
  if (accounts.find(accountId) !== undefined) return
  const field = 'accountId'
  if (typeof accountId !== 'string')
    throw new CellError('invalid_request', `${field} is a string.`, { field })
  throw new CellError('account_not_found', 'There is no account with this accountId.', { field })
}

function parsePosition(position: string): [createdAt: number, id: string] | undefined {
  const [, createdAt, id] = /^(\d{1,16}) (\S+)$/.exec(position) ?? []
  return id === undefined ? undefined : [Number(createdAt), id]
}

function toRecord([id, name, createdAt, suspendedAt, quotas]: Row): AccountRecord {
  return { id, name, createdAt, suspendedAt, quotas: Object.freeze(JSON.parse(quotas ?? '{}')) }
}

/** In the order in which {@link ACCOUNTS_UPGRADE} adds them. */
export const ACCOUNTS_SCHEMA = `
  CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT,
    created_at INTEGER NOT NULL,
    suspended_at INTEGER,
    quotas TEXT -- JSON: those of its own
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX accounts_by_age ON accounts (created_at, id);
`

export const ACCOUNTS_UPGRADE = `
  ALTER TABLE accounts ADD COLUMN suspended_at INTEGER;
  ALTER TABLE accounts ADD COLUMN quotas TEXT;
  CREATE INDEX accounts_by_age ON accounts (created_at, id);
`
