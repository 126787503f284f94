import type { Clock } from '../base/clock.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Statement } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'

/** What makes a repeated request the same request: scoped to the account, the method and the path. */
export interface IdempotencyKey {
  method: string
  path: string
  /** As the client chose it, 1–255 characters. */
  key: string
  /** The hash of the request's body: the same key with another body is a mistake. */
  fingerprint: string
}

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
`

const KEPT_MS = 24 * 60 * 60 * 1_000

/** Results of requests that must not be carried out twice, for 24 hours. */
export class Idempotency {
  readonly #catalog: Catalog
  readonly #clock: Clock
  readonly #find: Statement
  readonly #insert: Statement
  readonly #removeOld: Statement

  constructor(catalog: Catalog, clock: Clock) {
    this.#catalog = catalog
    this.#clock = clock
    this.#find = catalog
      .prepare(
        `SELECT fingerprint, result_id FROM idempotency
         WHERE account_id = ? AND method = ? AND path = ? AND key = ? AND created_at > ?`,
      )
      .raw()
    this.#insert = catalog.prepare('INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)')
    this.#removeOld = catalog.prepare('DELETE FROM idempotency WHERE created_at <= ?')
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
      'This Idempotency-Key was used with another body. Use a new key for a new request.',
    )
  }

  /** Call in the transaction that makes the result. */
  insert(accountId: string, { method, path, key, fingerprint }: IdempotencyKey, resultId: string): void {
    const now = this.#clock.now()
    this.#removeOld.run(now - KEPT_MS)
    this.#insert.run(accountId, method, path, key, fingerprint, resultId, now)
  }
}
