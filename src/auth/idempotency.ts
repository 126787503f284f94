import type { Clock } from '../base/clock.ts'
import { AccountCounts } from '../catalog/account-counts.ts'
import type { Quotas } from '../catalog/account-quotas.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'

/** By what a repeated request is recognised, within its account. */
export interface IdempotencyKey {
  /** Of HTTP, or any other name of the operation. */
  method: string
  path: string
  /** As the client chose it, 1–255 characters. */
  key: string
  /** A hash of the request's body: the same key with another body is refused. */
  fingerprint: string
}

/** For the oldest keys of an account. The catalogs of earlier versions lack it: see {@link Catalog.ensure}. */
const BY_ACCOUNT_SCHEMA = 'CREATE INDEX idempotency_by_account ON idempotency (account_id, created_at);'

export const IDEMPOTENCY_SCHEMA = `
  CREATE TABLE idempotency (
    account_id TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, method, path, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_by_age ON idempotency (created_at);
  ${BY_ACCOUNT_SCHEMA}
`

const KEPT_MS = 24 * 60 * 60 * 1_000
/** Keys that an insertion removes: it blocks the event loop. */
const REMOVED_AT_ONCE = 100

const COLUMNS = 'account_id, method, path, key'
const DELETE = `DELETE FROM idempotency WHERE (${COLUMNS}) IN (SELECT ${COLUMNS} FROM idempotency`

/** Results of requests that must not be carried out twice, for 24 hours. Of an account that makes many, the newest are kept. */
export class Idempotency {
  readonly #catalog: Catalog
  readonly #perAccountMax: number
  readonly #clock: Clock
  readonly #counts: AccountCounts
  readonly #find: Statement
  readonly #insert: Statement
  readonly #removeSame: Statement
  readonly #removeExpired: Statement
  readonly #removeOldest: Statement

  constructor(catalog: Catalog, { idempotencyKeysMax = Number.POSITIVE_INFINITY }: Quotas, clock: Clock) {
    this.#catalog = catalog
    this.#perAccountMax = idempotencyKeysMax
    this.#clock = clock
    catalog.ensure('idempotency_by_account', BY_ACCOUNT_SCHEMA)
    this.#counts = new AccountCounts(catalog, { table: 'idempotency', kind: 'idempotency_keys' })
    this.#find = catalog
      .prepare(
        `SELECT fingerprint, result_id FROM idempotency
         WHERE account_id = ? AND method = ? AND path = ? AND key = ? AND created_at > ?`,
      )
      .raw()
    this.#insert = catalog.prepare('INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)')
    this.#removeSame = catalog.prepare(`DELETE FROM idempotency WHERE (${COLUMNS}) = (?, ?, ?, ?)`)
    const expired = `${DELETE} WHERE created_at <= ? ORDER BY created_at LIMIT ${REMOVED_AT_ONCE})`
    this.#removeExpired = catalog.prepare(expired)
    this.#removeOldest = catalog.prepare(`${DELETE} WHERE account_id = ? ORDER BY created_at LIMIT ?)`)
  }

  /**
   * @returns what the first request made, if there was one
   * @throws `idempotency_key_reused` if that had another body
   */
  find(accountId: string, { method, path, key, fingerprint }: IdempotencyKey): string | undefined {
    const since = this.#clock.now() - KEPT_MS
    const row = this.#catalog.read(() => this.#find.get(accountId, method, path, key, since)) as
      | [string, string]
      | undefined
    if (row === undefined) return undefined
    if (row[0] === fingerprint) return row[1]
    throw new CellError(
      'idempotency_key_reused',
      'This idempotency key was used with another request. Use a new key for a new request.',
    )
  }

  /** Call in the transaction that makes the result. */
  insert(accountId: string, { method, path, key, fingerprint }: IdempotencyKey, resultId: string): void {
    const now = this.#clock.now()
    this.#removeExpired.run(now - KEPT_MS)
    this.#removeSame.run(accountId, method, path, key)
    const surplus = this.#counts.of(accountId) + 1 - this.#perAccountMax
    if (surplus > 0) this.#removeOldest.run(accountId, Math.min(surplus, REMOVED_AT_ONCE))
    this.#insert.run(accountId, method, path, key, fingerprint, resultId, now)
  }
}
