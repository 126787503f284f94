import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'
import type { VerifiedApiKey } from './api-key-records.ts'
import type { KeyAccess, KeyScope, KeySurface } from './key-scope.ts'

/** An active key. */
export interface KeyRow {
  /** Counts up with each key. */
  number: number
  id: string
  name: string | null
  hint: string
  createdAt: number
  lastUsedAt: number | null
  scope: KeyScope
  /** See {@link VerifiedApiKey}. */
  endsAt: number | null
}

export interface NewKeyRow extends Pick<KeyRow, 'id' | 'name' | 'hint' | 'createdAt' | 'scope'> {
  accountId: string
  /** SHA-256 of the key, in hexadecimal. */
  hash: string
}

const SCOPE = 'access, surface, cell_ids, expires_at, retires_at'
/** SQLite's scalar min() of a NULL is NULL. */
const ENDS_AT = 'min(ifnull(expires_at, retires_at), ifnull(retires_at, expires_at))'
const IS_ACTIVE = `revoked_at IS NULL AND (${ENDS_AT} IS NULL OR ${ENDS_AT} > @now)`
const ROW = `number, id, name, hint, created_at, last_used_at, ${SCOPE}`

type ScopeColumns = [
  access: KeyAccess,
  surface: KeySurface,
  cellIds: string | null,
  expiresAt: number | null,
  retiresAt: number | null,
]
type RowColumns = [number, string, string | null, string, number, number | null, ...ScopeColumns]

/** The rows of API keys in the catalog. Times are epoch milliseconds. A key is active until it was revoked or has ended. */
export class ApiKeyTable {
  readonly #catalog: Catalog
  readonly #insert: Statement
  readonly #page: Statement
  readonly #active: Statement
  readonly #count: Statement
  readonly #find: Statement
  readonly #account: Statement
  readonly #cell: Statement
  readonly #ofHash: Statement
  readonly #has: Statement
  readonly #revoke: Statement
  readonly #retire: Statement
  readonly #forgetEnded: Statement
  readonly #removeAll: Statement

  constructor(catalog: Catalog) {
    this.#catalog = catalog
    const keys = 'FROM api_keys WHERE account_id = @accountId'
    this.#insert = catalog.prepare(
      `INSERT INTO api_keys (id, account_id, name, hint, hash, created_at, access, surface, cell_ids, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.#page = catalog
      .prepare(
        `SELECT ${ROW} ${keys} AND ${IS_ACTIVE} AND number < @before ORDER BY number DESC LIMIT @count`,
      )
      .raw()
    this.#active = catalog.prepare(`SELECT ${ROW} ${keys} AND ${IS_ACTIVE} AND id = @id`).raw()
    this.#count = catalog.prepare(`SELECT count(*) ${keys} AND ${IS_ACTIVE}`).pluck()
    this.#find = catalog.prepare('SELECT revoked_at FROM api_keys WHERE account_id = ? AND id = ?').raw()
    this.#account = catalog.prepare('SELECT account_id FROM api_keys WHERE id = ?').pluck()
    this.#cell = catalog.prepare('SELECT 1 FROM cells WHERE id = ? AND account_id = ? AND deleted_at IS NULL')
    this.#ofHash = catalog
      .prepare(`SELECT id, account_id, ${SCOPE} FROM api_keys WHERE hash = ? AND revoked_at IS NULL`)
      .raw()
    this.#has = catalog.prepare('SELECT 1 FROM api_keys WHERE hash = ?')
    this.#revoke = catalog.prepare('UPDATE api_keys SET revoked_at = ? WHERE id = ?')
    this.#retire = catalog.prepare(
      'UPDATE api_keys SET retires_at = min(ifnull(retires_at, @at), @at) WHERE id = @id',
    )
    this.#forgetEnded = catalog.prepare(
      `DELETE FROM api_keys WHERE number IN (
         SELECT number ${keys} AND NOT (${IS_ACTIVE})
         ORDER BY ifnull(revoked_at, ${ENDS_AT}) DESC, number DESC LIMIT -1 OFFSET @max)`,
    )
    this.#removeAll = catalog.prepare('DELETE FROM api_keys WHERE account_id = ?')
  }

  insert({ id, accountId, name, hint, hash, createdAt, scope }: NewKeyRow): void {
    const { access, surface, cellIds, expiresAt } = scope
    const cells = cellIds && JSON.stringify(cellIds)
    const bytes = Buffer.from(hash, 'hex')
    this.#insert.run(id, accountId, name, hint, bytes, createdAt, access, surface, cells, expiresAt)
  }

  /** Active keys, newest first. @param before number of the last key of the page before @param count -1: all */
  page(accountId: string, now: number, before: number, count: number): KeyRow[] {
    if (!areTexts(accountId)) return []
    const bound = { accountId, now, before, count }
    return (this.#catalog.read(() => this.#page.all(bound)) as RowColumns[]).map(toRow)
  }

  active(accountId: string, id: string, now: number): KeyRow | undefined {
    if (!areTexts(accountId, id)) return undefined
    const row = this.#catalog.read(() => this.#active.get({ accountId, id, now })) as RowColumns | undefined
    return row && toRow(row)
  }

  /** How many keys are active. */
  count(accountId: string, now: number): number {
    return this.#catalog.read(() => this.#count.get({ accountId, now })) as number
  }

  /** Undefined if the account has no such key. */
  revokedAt(accountId: string, id: string): number | null | undefined {
    if (!areTexts(accountId, id)) return undefined
    const row = this.#catalog.read(() => this.#find.get(accountId, id)) as [number | null] | undefined
    return row?.[0]
  }

  accountOf(id: string): string | undefined {
    return this.#catalog.read(() => this.#account.get(id)) as string | undefined
  }

  /** Whether the cell exists and is the account's. */
  hasCell(accountId: string, cellId: string): boolean {
    return this.#catalog.read(() => this.#cell.get(cellId, accountId)) !== undefined
  }

  /** The key, unless it was revoked; it may have ended. To be called in {@link Catalog.read}. */
  ofHash(hash: string): VerifiedApiKey | undefined {
    const row = this.#ofHash.get(Buffer.from(hash, 'hex')) as [string, string, ...ScopeColumns] | undefined
    if (row === undefined) return undefined
    const [keyId, accountId, ...scope] = row
    return { keyId, accountId, ...toScope(scope) }
  }

  has(hash: string): boolean {
    return this.#has.get(Buffer.from(hash, 'hex')) !== undefined
  }

  /** The changes are parts of a change of the catalog. */
  revoke(id: string, at: number): void {
    this.#revoke.run(at, id)
  }

  retire(id: string, at: number): void {
    this.#retire.run({ id, at })
  }

  /** Forgets the keys that ended longest ago, but for `max` of them. */
  forgetEnded(accountId: string, now: number, max: number): void {
    this.#forgetEnded.run({ accountId, now, max })
  }

  removeAll(accountId: string): void {
    this.#removeAll.run(accountId)
  }
}

/** What is no text is nobody's id, and SQLite may not be able to bind it. */
function areTexts(...ids: readonly unknown[]): boolean {
  return ids.every((id) => typeof id === 'string')
}

function toRow([number, id, name, hint, createdAt, lastUsedAt, ...scope]: RowColumns): KeyRow {
  return { number, id, name, hint, createdAt, lastUsedAt, ...toScope(scope) }
}

function toScope([access, surface, cellIds, expiresAt, retiresAt]: ScopeColumns): Pick<
  KeyRow,
  'scope' | 'endsAt'
> {
  const scope = { access, surface, cellIds: cellIds === null ? null : JSON.parse(cellIds), expiresAt }
  const endsAt =
    expiresAt === null || retiresAt === null ? (expiresAt ?? retiresAt) : Math.min(expiresAt, retiresAt)
  return { scope: Object.freeze(scope), endsAt }
}

/** In the order in which {@link API_KEYS_UPGRADE} adds them. */
export const API_KEYS_SCHEMA = `
  CREATE TABLE api_keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    name TEXT,
    hint TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE, -- SHA-256 of the key
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER,
    access TEXT NOT NULL DEFAULT 'write',
    surface TEXT NOT NULL DEFAULT 'all',
    cell_ids TEXT, -- JSON; NULL: all cells of the account
    expires_at INTEGER,
    retires_at INTEGER -- the end of its grace, once a rotation has replaced it
  ) STRICT;
  CREATE INDEX api_keys_by_account ON api_keys (account_id, number);
`

export const API_KEYS_UPGRADE = `
  ALTER TABLE api_keys ADD COLUMN access TEXT NOT NULL DEFAULT 'write';
  ALTER TABLE api_keys ADD COLUMN surface TEXT NOT NULL DEFAULT 'all';
  ALTER TABLE api_keys ADD COLUMN cell_ids TEXT;
  ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
  ALTER TABLE api_keys ADD COLUMN retires_at INTEGER;
`
