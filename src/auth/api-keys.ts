import { randomBytes, randomUUID } from 'node:crypto'
import type { Emitter } from '../base/async/emitter.ts'
import type { Clock, Timer } from '../base/clock.ts'
import { checkDisplayName } from '../base/options/display-name.ts'
import type { Limits } from '../base/options/limits.ts'
import {
  checkOptions,
  type Given,
  judgedByReader,
  maybe,
  orNull,
  type Shape,
} from '../base/options/option-shapes.ts'
import { cutPage, PAGING, pageLimit } from '../base/paging.ts'
import { RowCursors } from '../base/row-cursor.ts'
import type { AccountQuotas } from '../catalog/account-quotas.ts'
import { type Catalog, CatalogCache } from '../catalog/catalog.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError, isCellError } from '../errors.ts'
import { type Accounts, assertAccount } from './accounts.ts'
import { hashApiKey, hintOf, makeApiKey, parseApiKey } from './api-key.ts'
import {
  type ApiKeyListOptions,
  type ApiKeyPage,
  type ApiKeyRecord,
  type CreateApiKeyOptions,
  type CreatedApiKey,
  hasEnded,
  type RotateApiKeyOptions,
  type RotatedApiKey,
  type VerifiedApiKey,
} from './api-key-records.ts'
import { ApiKeyTable, type KeyRow } from './api-key-table.ts'
import { checkExpiry, covers, forbidden, KEY_SCOPE, type KeyScope, scopeOf } from './key-scope.ts'

export interface ApiKeysParts {
  catalog: Catalog
  accounts: Accounts
  quotas: AccountQuotas
  clock: Clock
  limits: Pick<Limits, 'pageMax'>
}

const CREATE: Shape<CreateApiKeyOptions> = {
  ...KEY_SCOPE,
  name: maybe(judgedByReader('a name')),
  key: maybe(judgedByReader('an API key')),
  by: maybe(judgedByReader('the scope of a key')),
}
const ROTATE: Shape<RotateApiKeyOptions> = {
  graceMs: judgedByReader('a whole number of milliseconds'),
  expiresAt: orNull(judgedByReader('a time in epoch milliseconds')),
  by: maybe(judgedByReader('the scope of a key')),
}

const DAY_MS = 86_400_000
const GRACE_MS_DEFAULT = DAY_MS
const GRACE_MS_MAX = 30 * DAY_MS
/** About 4 MB of hashes, ids and scopes: each request looks a key up. */
const KEYS_KEPT_MAX = 10_000

/** API keys of accounts. Only hashes are kept. */
export class ApiKeys {
  readonly #parts: ApiKeysParts
  readonly #table: ApiKeyTable
  readonly #uses: KeyUses
  readonly #cursors: RowCursors
  /** By the key's hash: the key itself is kept nowhere (invariant 12). */
  readonly #known: CatalogCache<{ key: VerifiedApiKey }>

  /** After changes of keys or accounts, and of all else in the catalog. @internal */
  get changed(): Emitter {
    return this.#parts.catalog.changed
  }

  /** @internal Comes with a store, as `store.apiKeys`. */
  constructor(parts: ApiKeysParts) {
    this.#parts = parts
    this.#table = new ApiKeyTable(parts.catalog)
    this.#uses = new KeyUses(parts.catalog, parts.clock)
    this.#known = new CatalogCache(parts.catalog, KEYS_KEPT_MAX)
    this.#cursors = new RowCursors(parts.catalog.storeId, 'api keys')
  }

  /**
   * Makes an API key; it is on disk when this returns.
   *
   * @throws `account_not_found`; `invalid_request` for a malformed key, name or scope; `cell_not_found` for a
   * cell that the account does not have; `constraint_violation` if the key exists already; `quota_exceeded`,
   * `rate_limited`, `disk_full`, `store_closed`
   */
  create<O extends CreateApiKeyOptions & Given<O, CreateApiKeyOptions>>(
    accountId: string,
    options?: O,
  ): CreatedApiKey
  create(accountId: string, options: CreateApiKeyOptions = {}): CreatedApiKey {
    const { accounts, clock } = this.#parts
    checkOptions(options, CREATE)
    assertAccount(accounts, accountId)
    checkDisplayName(options.name)
    const { by, expiresAt = by?.expiresAt ?? null } = options
    const scope = scopeOf({ ...options, expiresAt }, clock.now())
    if (by !== undefined && !covers(by, scope)) throw tooWide()
    for (const id of scope.cellIds ?? []) if (!this.#table.hasCell(accountId, id)) throw cellNotFound()
    const key = options.key === undefined ? makeApiKey(randomBytes) : givenKey(options.key)
    return this.#insert(accountId, key, options.name ?? null, scope)
  }

  /**
   * Makes a key with the name and the scope of another one, which is refused once its grace is over. While both work, both
   * count against the account's quota.
   *
   * @throws `api_key_not_found` if the account has no such key, or it no longer works; `invalid_request`, `quota_exceeded`,
   * `rate_limited`, `disk_full`, `store_closed`
   */
  rotate<O extends RotateApiKeyOptions & Given<O, RotateApiKeyOptions>>(
    accountId: string,
    keyId: string,
    options?: O,
  ): RotatedApiKey
  rotate(accountId: string, keyId: string, options: RotateApiKeyOptions = {}): RotatedApiKey {
    const { catalog, clock } = this.#parts
    checkOptions(options, ROTATE)
    const { graceMs = GRACE_MS_DEFAULT, by } = options
    const now = clock.now()
    checkGrace(graceMs)
    checkExpiry(options.expiresAt ?? null, now)
    const old = this.#table.active(accountId, keyId, now)
    if (old === undefined) throw keyNotFound()
    const asked = options.expiresAt === undefined ? old.scope.expiresAt : options.expiresAt
    const bounded = options.expiresAt === undefined && by !== undefined
    const expiresAt = bounded ? earliest(asked, by.expiresAt) : asked
    const scope = { ...old.scope, expiresAt }
    if (by !== undefined && !covers(by, scope)) throw tooWide()
    const endsAt = earliest(old.endsAt, now + graceMs) as number
    return catalog.change(() => {
      this.#table.retire(keyId, now + graceMs)
      // Its end must not wait for the clock of another node, which may be behind.
      if (graceMs === 0) this.#table.revoke(keyId, now)
      const created = this.#insert(accountId, makeApiKey(randomBytes), old.name, scope)
      return { ...created, replaces: { id: keyId, expiresAt: endsAt } }
    })
  }

  /** All active keys of the account, newest first. */
  list(accountId: string): ApiKeyRecord[] {
    return this.#page(accountId, Number.MAX_SAFE_INTEGER, -1).map((row) => this.#record(row))
  }

  /** One page of {@link list}. @throws `invalid_request` for a bad cursor or limit */
  page(accountId: string, options: ApiKeyListOptions = {}): ApiKeyPage {
    checkOptions(options, PAGING)
    const { cursor, limit } = options
    const { pageMax } = this.#parts.limits
    const count = pageLimit(limit, pageMax, pageMax)
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : this.#cursors.decode(cursor)
    const rows = this.#page(accountId, before, count + 1)
    const { page, nextCursor } = cutPage(rows, count, ({ number }) => this.#cursors.encode(number))
    return { keys: page.map((row) => this.#record(row)), nextCursor }
  }

  /**
   * Revokes a key: from the next {@link verify} on it is refused. A repeat returns the same.
   *
   * @returns `revokedAt` in epoch milliseconds
   * @throws `api_key_not_found` if the account has no such key
   */
  revoke(accountId: string, keyId: string): { id: string; revokedAt: number } {
    const { catalog, clock } = this.#parts
    const before = this.#table.revokedAt(accountId, keyId)
    if (before === undefined) throw keyNotFound()
    // A repeat writes the row again: of several nodes, some may not have it yet, and all must before this is answered.
    const revokedAt = before ?? clock.now()
    catalog.changeDelete(() => {
      this.#table.revoke(keyId, revokedAt)
      this.#forgetEnded(accountId, revokedAt)
    })
    return { id: keyId, revokedAt }
  }

  /**
   * Checks a key. The result is cached only until the catalog changes: a revocation takes effect with the next call, and so
   * does a suspension. The time at which a key expires is looked at in each call.
   *
   * @throws `unauthorized` for a key that is malformed, unknown, revoked or expired, with the same message for all;
   * `account_suspended`
   */
  verify(key: string): Readonly<VerifiedApiKey> {
    const { accounts, clock } = this.#parts
    const verified =
      typeof key !== 'string' ? undefined : this.#known.get(hashApiKey(key), (hash) => this.#look(key, hash))
    if (verified === undefined || hasEnded(verified.key, clock)) {
      throw new CellError('unauthorized', 'The API key is not valid.')
    }
    const { keyId, accountId } = verified.key
    if (accounts.find(accountId)?.suspendedAt != null) {
      throw new CellError('account_suspended', 'The account is suspended. Its data is kept.')
    }
    this.#uses.note(keyId)
    return verified.key
  }

  /** Whether a key is well-formed, and the catalog does not have it, not even as one that was revoked. @internal */
  isUnknown(key: string): boolean {
    return parseApiKey(key) !== undefined && !this.#table.has(hashApiKey(key))
  }

  /** Changes whenever any key or account may have; undefined during a change. */
  get version(): number | undefined {
    return this.#parts.catalog.version
  }

  /** The account of a key, whether or not the key still works. @internal */
  accountOf(keyId: string): string | undefined {
    return this.#table.accountOf(keyId)
  }

  /** Removes an account's keys without a trace: for keys that nobody has ever seen. @internal */
  removeAll(accountId: string): void {
    this.#parts.catalog.changeDelete(() => this.#table.removeAll(accountId))
  }

  /** Writes down when keys were last used. Never throws, nor rejects. @internal */
  flush(): Promise<void> {
    return this.#uses.flush()
  }

  #insert(accountId: string, key: string, name: string | null, scope: KeyScope): CreatedApiKey {
    const { catalog, clock, quotas } = this.#parts
    const now = clock.now()
    quotas.checkApiKeys(accountId, () => this.#table.count(accountId, now))
    quotas.chargeCreation(accountId)
    const id = randomUUID()
    catalog.change(() => {
      this.#table.insert({
        id,
        accountId,
        name,
        hint: hintOf(key),
        hash: hashApiKey(key),
        createdAt: now,
        scope,
      })
      this.#forgetEnded(accountId, now)
    })
    return { id, name, hint: hintOf(key), createdAt: now, ...scope, key }
  }

  #forgetEnded(accountId: string, now: number): void {
    const max = this.#parts.quotas.of(accountId, 'apiKeysMax')
    if (max !== undefined) this.#table.forgetEnded(accountId, now, max)
  }

  #look(key: string, hash: string): { key: VerifiedApiKey } | undefined {
    const found = parseApiKey(key) === undefined ? undefined : this.#table.ofHash(hash)
    return found && { key: Object.freeze(found) }
  }

  #page(accountId: string, before: number, count: number): KeyRow[] {
    return this.#table.page(accountId, this.#parts.clock.now(), before, count)
  }

  #record({ number: _, scope, endsAt, lastUsedAt, ...row }: KeyRow): ApiKeyRecord {
    return { ...row, ...scope, expiresAt: endsAt, lastUsedAt: this.#uses.last(row.id, lastUsedAt) }
  }
}

function givenKey(given: string): string {
  const key = typeof given === 'string' ? parseApiKey(given) : undefined
  if (key !== undefined) return key
  throw new CellError(
    'invalid_request',
    'The key is malformed. `cellstore keys generate` makes one with a valid checksum.',
    { field: 'key' },
  )
}

function checkGrace(graceMs: number): void {
  if (Number.isSafeInteger(graceMs) && graceMs >= 0 && graceMs <= GRACE_MS_MAX) return
  const message = `graceMs must be a whole number of milliseconds from 0 to ${GRACE_MS_MAX}.`
  throw new CellError('invalid_request', message, { field: 'graceMs', limit: GRACE_MS_MAX })
}

/** Null is never. */
function earliest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b)
}

function keyNotFound(): CellError {
  return new CellError('api_key_not_found', 'There is no such API key.')
}

function tooWide(): CellError {
  return forbidden('A key can only make keys that may do no more than itself, and for no longer.')
}

const WRITTEN_EVERY_MS = 60_000

/** When API keys were last used: exact to a minute, and written down once a minute. */
export class KeyUses {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #set: Statement
  /** Uses that are not in the catalog yet, by key id. */
  readonly #unwritten = new Map<string, number>()
  #timer: Timer | undefined

  constructor(catalog: Catalog, clock: Clock) {
    this.#catalog = catalog
    this.#clock = clock
    this.#set = catalog.prepare(
      'UPDATE api_keys SET last_used_at = @at WHERE id = @id AND ifnull(last_used_at, 0) < @at',
    )
  }

  note(keyId: string): void {
    if (this.#unwritten.has(keyId)) return
    this.#unwritten.set(keyId, this.#clock.now())
    this.#setTimer()
  }

  /** @param written what the catalog says */
  last(keyId: string, written: number | null): number | null {
    return this.#unwritten.get(keyId) ?? written
  }

  /** Never throws, nor rejects: it keeps what it cannot write, and tries again. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#unwritten.size === 0) return
    const uses = new Map(this.#unwritten)
    try {
      // Another node may know of a later use.
      const written = this.#catalog.noteForAll(() => {
        for (const [id, at] of uses) this.#set.run({ at, id })
      })
      if (written !== undefined) await written
      for (const id of uses.keys()) this.#unwritten.delete(id)
    } catch (error) {
      if (!isCellError(error, 'store_closed')) this.#setTimer()
    }
  }

  #setTimer(): void {
    this.#timer ??= this.#clock.setTimer(() => this.flush(), WRITTEN_EVERY_MS)
  }
}
