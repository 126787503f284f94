import type { Readable } from 'node:stream'
import type { BackupKind, BackupOptions } from '../../backup/versions/backup-types.ts'
import { type Clock, delay } from '../../base/clock.ts'
import { isCellError } from '../../errors.ts'
import type { AccountDocument, AccountPageDocument } from '../../http/answers/account-answers.ts'
import type { RevokedKeyDocument } from '../../http/answers/api-key-answers.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  RestoreDocument,
  RestorePlanDocument,
} from '../../http/answers/backup-answers.ts'
import type { CellSummaryDocument, DeletedCellDocument } from '../../http/answers/cell-answers.ts'
import type {
  CellDocument,
  CellPageDocument,
  CreatedKeyDocument,
  KeyDocument,
  RotatedKeyDocument,
} from '../../http/owner-routes.ts'
import type { RecoverDocument } from '../../http/recover-actions.ts'
import type { PinDocument, PlanDocument, PruneDocument, PurgeDocument } from '../../http/retention-actions.ts'
import type { StatusDocument } from '../../http/status-document.ts'
import type { StoreDocument, VerifyDocument } from '../../http/verify-actions.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import { errorOfProblem } from '../problem-error.ts'
import type {
  BatchInput,
  CallOptions,
  CreateCellInput,
  CreateKeyInput,
  ImportCellInput,
  ListCellsInput,
  RestoreInput,
  RotateKeyInput,
  SqlInput,
  StoreClient,
} from '../store-client.ts'

/** Carries requests to the routes of src/http/owner-routes.ts, wherever the store is open. */
export interface Transport {
  send(request: OwnerRequest): Promise<OwnerAnswer>
  /** What a person should know of what was changed here: no node runs that will store it. */
  unstored?(): string | undefined
  close(): Promise<void>
}

export interface OwnerRequest extends BackupOptions {
  method: string
  /** The path and the query. */
  target: string
  /** JSON. */
  body?: string | undefined
  /** A database, instead of JSON. */
  file?: AsyncIterable<Uint8Array> | undefined
}

export interface OwnerAnswer {
  status: number
  /** JSON: a document, or a problem. Empty with a file. */
  body: string
  /** A database. The caller reads it. */
  file?: Readable | undefined
}

const ANOTHER_VERSION = 'The running node does not know this command: it is another version of cellstore.'

/** A restore goes on when a request has waited for long enough, and the next request waits for the same restore. */
const RESTORING_RETRY_MS = 1_000

/**
 * What the owner of a store can ask of it: an HTTP client, whether this process or a running node has the store open. The
 * owner stands above accounts: ids of all of them are good.
 */
export class OwnerClient implements StoreClient {
  readonly #transport: Transport
  readonly #clock: Clock

  constructor(transport: Transport, clock: Clock) {
    this.#transport = transport
    this.#clock = clock
  }

  /**
   * Makes a key of an account: of the one named, of a new one, or of the only one.
   *
   * @throws `invalid_request` if it is not clear whose key it should be
   */
  createKey({ account, newAccount, name, ...scope }: CreateKeyInput): Promise<CreatedKeyDocument> {
    return this.#ask('POST', '/api-keys', { account, new_account: newAccount, name, ...scope })
  }

  /** Makes a key in place of another one. @throws `api_key_not_found` */
  rotateKey({ id, ...options }: RotateKeyInput): Promise<RotatedKeyDocument> {
    return this.#ask('POST', `/api-keys/${encode(id)}/rotate`, options)
  }

  /** Active keys, newest first; of every account, or of one. */
  listKeys({ account }: { account?: string | undefined }): Promise<KeyDocument[]> {
    return this.#ask('GET', `/api-keys${queryOf({ account })}`)
  }

  /** @throws `api_key_not_found` */
  revokeKey({ id }: { id: string }): Promise<RevokedKeyDocument> {
    return this.#ask('DELETE', `/api-keys/${encode(id)}`)
  }

  createAccount({ name }: { name?: string | undefined }): Promise<AccountDocument> {
    return this.#ask('POST', '/accounts', { name })
  }

  /** In the order they were made. */
  listAccounts({ cursor }: { cursor?: string | undefined }): Promise<AccountPageDocument> {
    return this.#ask('GET', `/accounts${queryOf({ cursor })}`)
  }

  /** @throws `account_not_found` */
  account({ id }: { id: string }): Promise<AccountDocument> {
    return this.#ask('GET', `/accounts/${encode(id)}`)
  }

  /** @throws `account_not_found` */
  setSuspended({ id, suspended }: { id: string; suspended: boolean }): Promise<AccountDocument> {
    return this.#ask('POST', `/accounts/${encode(id)}/${suspended ? 'suspend' : 'resume'}`, {})
  }

  /** All quotas at once. @throws `account_not_found` */
  setQuotas({ id, quotas }: { id: string; quotas: AccountDocument['quotas'] }): Promise<AccountDocument> {
    return this.#ask('PUT', `/accounts/${encode(id)}/quotas`, quotas)
  }

  /** Makes a cell of an account: of the one named, or of the only one. */
  createCell(
    { account, name, from: cell_id, version, timestamp }: CreateCellInput,
    options: BackupOptions = {},
  ): Promise<CellDocument> {
    const from = cell_id === undefined ? undefined : { cell_id, version, timestamp }
    return this.#ask('POST', '/databases', { account, name, from }, options)
  }

  /** Cells in the order they were made; of every account, or of one. */
  listCells({ account, name, deleted, cursor }: ListCellsInput): Promise<CellPageDocument> {
    return this.#ask('GET', `/databases${queryOf({ account, name, deleted: deleted?.toString(), cursor })}`)
  }

  renameCell({ cell, name }: { cell: string; name: string | null }): Promise<CellSummaryDocument> {
    return this.#ask('PATCH', pathOf(cell), { name })
  }

  async exportCell({ cell }: { cell: string }, options: BackupOptions = {}): Promise<Readable> {
    const target = `/owner${pathOf(cell)}/export`
    const answer = await this.#transport.send({ ...options, method: 'GET', target })
    if (answer.file === undefined) throw errorOfProblem(JSON.parse(answer.body), ANOTHER_VERSION)
    return answer.file
  }

  async importCell(
    { account, name, file }: ImportCellInput,
    options: BackupOptions = {},
  ): Promise<CellDocument> {
    const target = `/owner/databases/import${queryOf({ account, name })}`
    const answer = await this.#transport.send({ ...options, method: 'POST', target, file })
    if (answer.status >= 400) throw errorOfProblem(JSON.parse(answer.body), ANOTHER_VERSION)
    return JSON.parse(answer.body) as CellDocument
  }

  /** @throws `cell_not_found` */
  deleteCell({ cell }: { cell: string }): Promise<DeletedCellDocument> {
    return this.#ask('DELETE', pathOf(cell))
  }

  /**
   * Runs one statement, under the same policy and limits as for an account. If the cell has to be restored first, this
   * waits for as long as that takes.
   *
   * @param input.params as in the HTTP interface
   */
  sql({ cell, sql, params }: SqlInput, options: CallOptions = {}): Promise<SqlDocument> {
    return this.#onceRestored(`${pathOf(cell)}/sql`, { sql, params }, options)
  }

  async batch({ cell, operations }: BatchInput, options: CallOptions = {}): Promise<SqlDocument[]> {
    const answer = this.#onceRestored<{ results: SqlDocument[] }>(
      `${pathOf(cell)}/batch`,
      { operations },
      options,
    )
    return (await answer).results
  }

  backup(
    { cell, kind }: { cell: string; kind: BackupKind },
    options: BackupOptions = {},
  ): Promise<BackupDocument> {
    const path = kind === 'snapshot' ? '/backup' : '/backup/incr'
    return this.#ask('POST', pathOf(cell) + path, {}, options)
  }

  restore({ cell, ...moment }: RestoreInput, options: BackupOptions = {}): Promise<RestoreDocument> {
    return this.#ask('POST', `${pathOf(cell)}/restore`, moment, options)
  }

  planRestore({ cell, ...moment }: RestoreInput): Promise<RestorePlanDocument> {
    return this.#ask('POST', `${pathOf(cell)}/restore`, { ...moment, dry_run: true })
  }

  /** Newest first. */
  listBackups({ cell, cursor }: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument> {
    return this.#ask('GET', `${pathOf(cell)}/backups${queryOf({ cursor })}`)
  }

  /**
   * Restores a cell whose data is not on the node's machine from its newest backup.
   *
   * @throws `no_backup`, `backup_corrupt`
   */
  recover({ cell }: { cell: string }, options: CallOptions = {}): Promise<RecoverDocument> {
    return this.#ask('POST', `${pathOf(cell)}/recover`, {}, options)
  }

  /** How the running node is. @throws `store_closed` if none runs */
  status(): Promise<StatusDocument> {
    return this.#ask('GET', '/status')
  }

  /** Whose backups `verify` takes for the catalog's. */
  store(): Promise<StoreDocument> {
    return this.#ask('GET', '/store')
  }

  /**
   * Proves that a version can be restored.
   *
   * @param input.version the newest by default
   * @throws `backup_corrupt` with the object and the member
   */
  verify(
    { cell, version, deep }: { cell: string; version?: string | undefined; deep?: boolean | undefined },
    options: BackupOptions = {},
  ): Promise<VerifyDocument> {
    return this.#ask('POST', `${pathOf(cell)}/backups/verify`, { version, deep }, options)
  }

  /** Removes what the cell's plan no longer keeps, and marks what goes next. */
  prune(
    { cell, dryRun }: { cell: string; dryRun?: boolean | undefined },
    options: BackupOptions = {},
  ): Promise<PruneDocument> {
    return this.#ask('POST', `${pathOf(cell)}/backups/prune`, { dry_run: dryRun }, options)
  }

  /** Removes all backups of a deleted cell. */
  purge({ cell }: { cell: string }, options: BackupOptions = {}): Promise<PurgeDocument> {
    return this.#ask('POST', `${pathOf(cell)}/backups/purge`, { confirm: cell }, options)
  }

  /** @throws `backup_not_found`, `invalid_version` */
  pin({ cell, version }: { cell: string; version: string }): Promise<PinDocument> {
    return this.#ask('POST', `${pathOf(cell)}/backups/pin`, { version })
  }

  unpin({ cell, version }: { cell: string; version: string }): Promise<PinDocument> {
    return this.#ask('POST', `${pathOf(cell)}/backups/unpin`, { version })
  }

  /** The cell's own plan; null if it has none. */
  plan({ cell }: { cell: string }): Promise<PlanDocument> {
    return this.#ask('GET', `${pathOf(cell)}/backups/plan`)
  }

  /** @param input.plan null: the store's plan holds again @throws `invalid_request` */
  setPlan({ cell, plan }: { cell: string; plan: string | null }): Promise<PlanDocument> {
    return this.#ask('PUT', `${pathOf(cell)}/backups/plan`, { plan })
  }

  /** What a person should know of what was changed here, if no node runs that will store it. Call it before the close. */
  get unstored(): string | undefined {
    return this.#transport.unstored?.()
  }

  /** Closes the store if it is open in this process. */
  async close(): Promise<void> {
    await this.#transport.close()
  }

  async #onceRestored<T>(path: string, body: object, options: CallOptions): Promise<T> {
    for (;;) {
      options.signal?.throwIfAborted()
      try {
        return await this.#ask('POST', path, body, options)
      } catch (error) {
        if (!isCellError(error, 'cell_restoring')) throw error
      }
      await delay(this.#clock, RESTORING_RETRY_MS)
    }
  }

  async #ask<T>(method: string, path: string, body?: object, options: BackupOptions = {}): Promise<T> {
    const answer = await this.#transport.send({
      ...options,
      method,
      target: `/owner${path}`,
      body: body && JSON.stringify(body),
    })
    if (answer.status >= 400) throw errorOfProblem(JSON.parse(answer.body), ANOTHER_VERSION)
    return JSON.parse(answer.body) as T
  }
}

function pathOf(cell: string): string {
  return `/databases/${encode(cell)}`
}

function queryOf(fields: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, value)
  return query.size === 0 ? '' : `?${query}`
}

/** Text with lone surrogates is no id, and the encoder would throw for it. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}
