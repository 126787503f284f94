import type { Readable } from 'node:stream'
import type { BackupKind, BackupOptions } from '../../backup/versions/backup-types.ts'
import { type Clock, delay } from '../../base/clock.ts'
import { isCellId } from '../../base/store-paths.ts'
import { CellError, type CellErrorCode, ERROR_KINDS, isCellError } from '../../errors.ts'
import type { RevokedKeyDocument } from '../../http/answers/api-key-answers.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  RestoreDocument,
} from '../../http/answers/backup-answers.ts'
import type { CellSummaryDocument, DeletedCellDocument } from '../../http/answers/cell-answers.ts'
import type {
  CellDocument,
  CellPageDocument,
  CreatedKeyDocument,
  KeyDocument,
} from '../../http/owner-routes.ts'
import type { PinDocument, PlanDocument, PruneDocument, PurgeDocument } from '../../http/retention-actions.ts'
import type { StoreDocument, VerifyDocument } from '../../http/verify-actions.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'

/** Carries requests to the routes of src/http/owner-routes.ts, wherever the store is open. */
export interface Transport {
  send(request: OwnerRequest): Promise<OwnerAnswer>
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

/** A restore goes on when a request has waited for long enough, and the next request waits for the same restore. */
const RESTORING_RETRY_MS = 1_000

/**
 * What the owner of a store can ask of it: an HTTP client, whether this process or a running node has the store open. The
 * owner stands above accounts: ids of all of them are good, and names in place of them.
 *
 * Every method rejects with a `CellError`, or as an aborted signal does.
 */
export class OwnerClient {
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
  createKey({ account, newAccount, name }: CreateKeyInput): Promise<CreatedKeyDocument> {
    return this.#ask('POST', '/api-keys', { account, new_account: newAccount, name })
  }

  /** Active keys, newest first; of every account, or of one. */
  listKeys({ account }: { account?: string | undefined }): Promise<KeyDocument[]> {
    return this.#ask('GET', `/api-keys${queryOf({ account })}`)
  }

  /** @throws `api_key_not_found` */
  revokeKey({ id }: { id: string }): Promise<RevokedKeyDocument> {
    return this.#ask('DELETE', `/api-keys/${encode(id)}`)
  }

  /** Makes a cell of an account: of the one named, or of the only one. */
  createCell({ account, name }: CreateCellInput): Promise<CellDocument> {
    return this.#ask('POST', '/databases', { account, name })
  }

  /** Cells in the order they were made; of every account, or of one. */
  listCells({ account, name, cursor }: ListCellsInput): Promise<CellPageDocument> {
    return this.#ask('GET', `/databases${queryOf({ account, name, cursor })}`)
  }

  /** Gives a cell another name; null: none. @throws `name_taken` */
  renameCell({ cell, name }: { cell: string; name: string | null }): Promise<CellSummaryDocument> {
    return this.#askCell(cell, 'PATCH', '', { name })
  }

  /** The cell as a SQLite file. The caller reads it. */
  async exportCell({ cell }: { cell: string }, options: BackupOptions = {}): Promise<Readable> {
    const target = `/owner/databases/${encode(await this.#idOf(cell))}/export`
    const answer = await this.#transport.send({ ...options, method: 'GET', target })
    if (answer.file === undefined) throw errorOf(answer.body)
    return answer.file
  }

  /** Makes a cell of a database, of the account that is named, or of the only one. */
  async importCell(
    { account, name, file }: CreateCellInput & { file: AsyncIterable<Uint8Array> },
    options: BackupOptions = {},
  ): Promise<CellDocument> {
    const target = `/owner/databases/import${queryOf({ account, name })}`
    const answer = await this.#transport.send({ ...options, method: 'POST', target, file })
    if (answer.status >= 400) throw errorOf(answer.body)
    return JSON.parse(answer.body) as CellDocument
  }

  /** @throws `cell_not_found` */
  deleteCell({ cell }: { cell: string }): Promise<DeletedCellDocument> {
    return this.#askCell(cell, 'DELETE', '')
  }

  /**
   * Runs one statement, under the same policy and limits as for an account. If the cell has to be restored first, this
   * waits for as long as that takes.
   *
   * @param input.params as in the HTTP interface
   */
  async sql({ cell, sql, params }: { cell: string; sql: string; params?: unknown }): Promise<SqlDocument> {
    for (;;) {
      try {
        return await this.#askCell(cell, 'POST', '/sql', { sql, params })
      } catch (error) {
        if (!isCellError(error, 'cell_restoring')) throw error
      }
      await delay(this.#clock, RESTORING_RETRY_MS)
    }
  }

  backup(
    { cell, kind }: { cell: string; kind: BackupKind },
    options: BackupOptions = {},
  ): Promise<BackupDocument> {
    const path = kind === 'snapshot' ? '/backup' : '/backup/incr'
    return this.#askCell(cell, 'POST', path, {}, options)
  }

  /** @param input.version the newest by default */
  restore(
    { cell, version }: { cell: string; version?: string | undefined },
    options: BackupOptions = {},
  ): Promise<RestoreDocument> {
    return this.#askCell(cell, 'POST', '/restore', { version }, options)
  }

  /** Newest first. */
  listBackups({ cell, cursor }: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument> {
    return this.#askCell(cell, 'GET', `/backups${queryOf({ cursor })}`)
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
    return this.#askCell(cell, 'POST', '/backups/verify', { version, deep }, options)
  }

  /** Removes what the cell's plan no longer keeps, and marks what goes next. */
  prune(
    { cell, dryRun }: { cell: string; dryRun?: boolean | undefined },
    options: BackupOptions = {},
  ): Promise<PruneDocument> {
    return this.#askCell(cell, 'POST', '/backups/prune', { dry_run: dryRun }, options)
  }

  /** Removes everything that the object store holds of a deleted cell. */
  purge({ cell }: { cell: string }, options: BackupOptions = {}): Promise<PurgeDocument> {
    return this.#ask('POST', `/databases/${encode(cell)}/backups/purge`, { confirm: cell }, options)
  }

  /** @throws `backup_not_found`, `invalid_version` */
  pin({ cell, version }: { cell: string; version: string }): Promise<PinDocument> {
    return this.#askCell(cell, 'POST', '/backups/pin', { version })
  }

  unpin({ cell, version }: { cell: string; version: string }): Promise<PinDocument> {
    return this.#askCell(cell, 'POST', '/backups/unpin', { version })
  }

  /** The cell's own plan; null if it has none. */
  plan({ cell }: { cell: string }): Promise<PlanDocument> {
    return this.#askCell(cell, 'GET', '/backups/plan')
  }

  /** @param input.plan null: the store's plan holds again @throws `invalid_request` */
  setPlan({ cell, plan }: { cell: string; plan: string | null }): Promise<PlanDocument> {
    return this.#askCell(cell, 'PUT', '/backups/plan', { plan })
  }

  /** Closes the store if it is open in this process. */
  async close(): Promise<void> {
    await this.#transport.close()
  }

  /** @param cell its id or its name */
  async #askCell<T>(
    cell: string,
    method: string,
    path: string,
    body?: object,
    options: BackupOptions = {},
  ): Promise<T> {
    return await this.#ask(method, `/databases/${encode(await this.#idOf(cell))}${path}`, body, options)
  }

  /** An id counts as one, also if some cell has it as its name. @throws `name_ambiguous`, `cell_not_found` */
  async #idOf(cell: string): Promise<string> {
    if (isCellId(cell)) return cell
    const { databases } = await this.listCells({ name: cell })
    const [found, ...others] = databases
    if (found === undefined)
      throw new CellError(
        'cell_not_found',
        'There is no cell with this id or name. A deleted cell has only its id.',
      )
    if (others.length === 0) return found.id
    const ids = databases.map(({ id, account_id }) => `${id} (account ${account_id ?? 'none'})`).join(', ')
    throw new CellError('name_ambiguous', `Several cells have this name: ${ids}. Use an id.`, {
      field: 'cell',
    })
  }

  async #ask<T>(method: string, path: string, body?: object, options: BackupOptions = {}): Promise<T> {
    const answer = await this.#transport.send({
      ...options,
      method,
      target: `/owner${path}`,
      body: body && JSON.stringify(body),
    })
    if (answer.status >= 400) throw errorOf(answer.body)
    return JSON.parse(answer.body) as T
  }
}

export interface CreateKeyInput {
  account?: string | undefined
  newAccount?: boolean | undefined
  name?: string | undefined
}

export interface CreateCellInput {
  account?: string | undefined
  name?: string | undefined
}

interface ListCellsInput {
  account?: string | undefined
  name?: string | undefined
  cursor?: string | undefined
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

/** The error in a problem document. A node of another version may know codes that this command does not. */
function errorOf(body: string): CellError {
  const { type: _, title, status, detail, code, request_id, sqlite_code, ...details } = JSON.parse(body)
  if (code === 'internal') {
    return new CellError('internal', `An unexpected error occurred. The log has it as request ${request_id}.`)
  }
  if (code === 'not_found' || code === 'method_not_allowed') {
    return new CellError(
      'invalid_request',
      'The running node does not know this command: it is another version of cellstore.',
    )
  }
  const known = Object.hasOwn(ERROR_KINDS, code) ? (code as CellErrorCode) : 'internal'
  return new CellError(
    known,
    detail,
    sqlite_code === undefined ? details : { ...details, sqliteCode: sqlite_code },
  )
}
