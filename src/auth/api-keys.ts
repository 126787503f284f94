import { randomBytes, randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../base/clock.ts'
import { checkDisplayName } from '../base/display-name.ts'
import type { Emitter } from '../base/emitter.ts'
import { checkNames, type Known } from '../base/known-names.ts'
import { cutPage, decodeCursor, pageLimit, parseRowNumber } from '../base/paging.ts'
import type { AccountQuotas } from '../catalog/account-quotas.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { CatalogCache } from '../catalog/catalog-cache.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError, isCellError } from '../errors.ts'
import { hashApiKey, hintOf, makeApiKey, parseApiKey } from './api-key.ts'

export interface ApiKeyRecord {
  id: string
  /** For people; null if it has none. */
  name: string | null
  /** The key's first 12 characters, by which its owner recognises it. */
  hint: string
  /** Epoch milliseconds. */
  createdAt: number
  /** Epoch milliseconds, exact to a minute; null if it was never used. */
  lastUsedAt: number | null
}

export interface CreatedApiKey extends Omit<ApiKeyRecord, 'lastUsedAt'> {
  /** The key itself. It is kept nowhere, and cannot be shown again (invariant 12). */
  key: string
}

export interface ApiKeyListOptions {
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Keys on the page; by default and at most the store's limit `pageMax`. */
  limit?: number | undefined
}

export interface ApiKeyPage {
  /** Newest first. */
  keys: ApiKeyRecord[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

/** Whose key it is. */
export interface VerifiedApiKey {
  keyId: string
  accountId: string
}

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
    revoked_at INTEGER
  ) STRICT;
  CREATE INDEX api_keys_by_account ON api_keys (account_id, number);
`

function givenKey(key: string): string | undefined {
  return typeof key === 'string' ? parseApiKey(key) : undefined
}

type CreateOptions = NonNullable<Parameters<ApiKeys['create']>[1]>
const CREATE_NAMES: Known<CreateOptions> = { name: true, key: true }
const PAGE_NAMES: Known<ApiKeyListOptions> = { cursor: true, limit: true }

const LAST_USED_EVERY_MS = 60_000
/** About 2 MB of hashes and ids: each request looks a key up. */
const KEYS_KEPT_MAX = 10_000

type KeyRow = [
  number: number,
  id: string,
  name: string | null,
  hint: string,
  createdAt: number,
  lastUsedAt: number | null,
]

/** API keys of accounts. Only hashes are kept. */
export class ApiKeys {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #account: Statement
  readonly #insert: Statement
  readonly #quotas: AccountQuotas
  readonly #pageMax: number
  readonly #page: Statement
  readonly #count: Statement
  readonly #find: Statement
  readonly #revoke: Statement
  readonly #verify: Statement
  readonly #setLastUsed: Statement
  readonly #removeAll: Statement
  readonly #forgetRevoked: Statement
  /** By the key's hash: the key itself is kept nowhere (invariant 12). */
  readonly #known: CatalogCache<VerifiedApiKey>
  /** Uses that are not in the catalog yet, by key id. */
  readonly #lastUsed = new Map<string, number>()
  #timer: Timer | undefined

  /** After changes of keys or accounts, and of all else in the catalog. @internal */
  get changed(): Emitter {
    return this.#catalog.changed
  }

  /** @internal Comes with a store, as `store.apiKeys`. */
  constructor(catalog: Catalog, clock: Clock, quotas: AccountQuotas, pageMax: number) {
    this.#pageMax = pageMax
    this.#catalog = catalog
    this.#clock = clock
    this.#quotas = quotas
    this.#known = new CatalogCache(catalog, KEYS_KEPT_MAX)
    this.#account = catalog.prepare('SELECT 1 FROM accounts WHERE id = ?')
    this.#insert = catalog.prepare(
      'INSERT INTO api_keys (id, account_id, name, hint, hash, created_at) VALUES (?, ?, ?, ?, ?, ?)',
    )
    this.#page = catalog
      .prepare(
        `SELECT number, id, name, hint, created_at, last_used_at FROM api_keys
         WHERE account_id = ? AND revoked_at IS NULL AND number < ? ORDER BY number DESC LIMIT ?`,
      )
      .raw()
    this.#count = catalog
      .prepare('SELECT count(*) FROM api_keys WHERE account_id = ? AND revoked_at IS NULL')
      .pluck()
    this.#forgetRevoked = catalog.prepare(
      `DELETE FROM api_keys WHERE number IN (
         SELECT number FROM api_keys WHERE account_id = ? AND revoked_at IS NOT NULL
         ORDER BY revoked_at DESC, number DESC LIMIT -1 OFFSET ?)`,
    )
    this.#find = catalog.prepare('SELECT revoked_at FROM api_keys WHERE account_id = ? AND id = ?').raw()
    this.#revoke = catalog.prepare('UPDATE api_keys SET revoked_at = ? WHERE id = ?')
    this.#verify = catalog
      .prepare('SELECT id, account_id FROM api_keys WHERE hash = ? AND revoked_at IS NULL')
      .raw()
    this.#removeAll = catalog.prepare('DELETE FROM api_keys WHERE account_id = ?')
    this.#setLastUsed = catalog.prepare('UPDATE api_keys SET last_used_at = ? WHERE id = ?')
  }

  /**
   * Makes an API key; it is on disk when this returns.
   *
   * @param options.name for people, at most 255 characters; need not be unique
   * @param options.key a key to use instead of a new one, such as a node's root key
   * @throws `invalid_request` if that key or the name is malformed; `constraint_violation` if the key exists already;
   * `quota_exceeded`, `rate_limited`, `disk_full`, `store_closed`
   */
  create(
    accountId: string,
    options: { name?: string | undefined; key?: string | undefined } = {},
  ): CreatedApiKey {
    checkNames(options, CREATE_NAMES)
    this.#assertAccount(accountId)
    checkDisplayName(options.name)
    const key = options.key === undefined ? makeApiKey(randomBytes) : givenKey(options.key)
    if (key === undefined) {
      throw new CellError(
        'invalid_request',
        'The key is malformed. `cellstore keys generate` makes one with a valid checksum.',
        { field: 'key' },
      )
    }
    this.#quotas.checkApiKeys(() => this.#catalog.read(() => this.#count.get(accountId)) as number)
    this.#quotas.chargeCreation(accountId)
    const record = {
      id: randomUUID(),
      name: options.name ?? null,
      hint: hintOf(key),
      createdAt: this.#clock.now(),
    }
    this.#catalog.change(() =>
      this.#insert.run(
        record.id,
        accountId,
        record.name,
        record.hint,
        Buffer.from(hashApiKey(key), 'hex'),
        record.createdAt,
      ),
    )
    return { ...record, key }
  }

  /** All active keys of the account, newest first. */
  list(accountId: string): ApiKeyRecord[] {
    const rows = this.#catalog.read(() => this.#page.all(accountId, Number.MAX_SAFE_INTEGER, -1)) as KeyRow[]
    return rows.map((row) => this.#record(row))
  }

  /** One page of {@link list}. @throws `invalid_request` for a bad cursor or limit */
  page(accountId: string, options: ApiKeyListOptions = {}): ApiKeyPage {
    checkNames(options, PAGE_NAMES)
    const { cursor, limit } = options
    const count = pageLimit(limit, this.#pageMax, this.#pageMax)
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, parseRowNumber)
    const rows = this.#catalog.read(() => this.#page.all(accountId, before, count + 1)) as KeyRow[]
    const { page, nextCursor } = cutPage(rows, count, ([number]) => String(number))
    return { keys: page.map((row) => this.#record(row)), nextCursor }
  }

  /**
   * Revokes a key: from the next {@link verify} on it is refused. A repeat returns the same.
   *
   * @returns `revokedAt` in epoch milliseconds
   * @throws `api_key_not_found` if the account has no such key
   */
  revoke(accountId: string, keyId: string): { id: string; revokedAt: number } {
    const row = this.#catalog.read(() => this.#find.get(accountId, keyId)) as [number | null] | undefined
    if (row === undefined) throw new CellError('api_key_not_found', 'There is no such API key.')
    const [before] = row
    if (before !== null) return { id: keyId, revokedAt: before }
    const revokedAt = this.#clock.now()
    this.#catalog.changeDelete(() => {
      this.#revoke.run(revokedAt, keyId)
      const { apiKeysMax } = this.#quotas.limits
      if (apiKeysMax !== undefined) this.#forgetRevoked.run(accountId, apiKeysMax)
    })
    return { id: keyId, revokedAt }
  }

  /**
   * Checks a key. The result is cached only until the catalog changes: a revocation takes effect with the next call.
   *
   * @throws `unauthorized` for a key that is malformed, unknown or revoked, with the same message for all
   */
  verify(key: string): Readonly<VerifiedApiKey> {
    const verified =
      typeof key !== 'string' ? undefined : this.#known.get(hashApiKey(key), (hash) => this.#look(key, hash))
    if (verified === undefined) {
      throw new CellError('unauthorized', 'The API key is not valid.')
    }
    this.#used(verified.keyId)
    return verified
  }

  /** Changes whenever any key may have; undefined during a change. */
  get version(): number | undefined {
    return this.#catalog.version
  }

  /** Removes an account's keys without a trace: for keys that nobody has ever seen. @internal */
  removeAll(accountId: string): void {
    this.#catalog.changeDelete(() => this.#removeAll.run(accountId))
  }

  /** Writes down when keys were last used. Never throws: it keeps what it cannot write, and tries again. @internal */
  flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#lastUsed.size === 0) return
    try {
      this.#catalog.note(() => {
        for (const [id, at] of this.#lastUsed) this.#setLastUsed.run(at, id)
      })
      this.#lastUsed.clear()
    } catch (error) {
      if (!isCellError(error, 'store_closed')) this.#setTimer()
    }
  }

  /** @throws `invalid_request` for an account that does not exist: its keys could be used for nothing else */
  #assertAccount(accountId: string): void {
    if (typeof accountId === 'string' && this.#catalog.read(() => this.#account.get(accountId)) !== undefined)
      return
    throw new CellError('invalid_request', 'There is no account with this accountId.', { field: 'accountId' })
  }

  #look(key: string, hash: string): VerifiedApiKey | undefined {
    if (parseApiKey(key) === undefined) return undefined
    const row = this.#verify.get(Buffer.from(hash, 'hex')) as [string, string] | undefined
    return row && { keyId: row[0], accountId: row[1] }
  }

  #record([, id, name, hint, createdAt, lastUsedAt]: KeyRow): ApiKeyRecord {
    return { id, name, hint, createdAt, lastUsedAt: this.#lastUsed.get(id) ?? lastUsedAt }
  }

  #used(keyId: string): void {
    if (this.#lastUsed.has(keyId)) return
    this.#lastUsed.set(keyId, this.#clock.now())
    this.#setTimer()
  }

  #setTimer(): void {
    this.#timer ??= this.#clock.setTimer(() => this.flush(), LAST_USED_EVERY_MS)
  }
}
