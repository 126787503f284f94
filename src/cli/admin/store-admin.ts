import { z } from 'zod'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { CellError, isCellError } from '../../errors.ts'
import { name, parseFields } from '../../http/fields.ts'
import { DEFAULT_HTTP_LIMITS } from '../../http/handler-options.ts'
import { decodeParams, encodeSqlResult } from '../../http/sql-codec.ts'
import { timeOf } from '../../http/time.ts'
import type { CellService } from '../../service/cell-service.ts'
import type { CellDirectory } from '../../store/cell-directory.ts'
import type { AdminService, BackupInput, CreateCellInput, CreateKeyInput, Transfer } from './admin-service.ts'
import {
  backupDocument,
  cellDocument,
  createdKeyDocument,
  keyDocument,
  restoreDocument,
  storedBackupDocument,
} from './documents.ts'

const nameSchema = z.object({ name: name.optional() })

/** Accounts that an error names; there may be thousands. */
const ACCOUNTS_NAMED_MAX = 20

/** An owner's commands on a store that is open in this process. */
export class StoreAdmin implements AdminService {
  readonly #store: CellDirectory & { close(): Promise<void> }
  readonly #service: CellService

  /** @param service runs statements: the one that serves the cells over HTTP, where they are served */
  constructor(store: CellDirectory & { close(): Promise<void> }, service: CellService) {
    this.#store = store
    this.#service = service
  }

  async createKey({ account, newAccount, name: keyName }: CreateKeyInput) {
    parseFields(nameSchema, { name: keyName })
    if (newAccount === true && account !== undefined) {
      throw new CellError(
        'invalid_request',
        'A key is of an account that exists or of a new one, not of both.',
        {
          field: 'account',
        },
      )
    }
    const accountId = newAccount === true ? this.#store.accounts.create().id : this.#accountOf(account)
    return createdKeyDocument(this.#store.apiKeys.create(accountId, { name: keyName }), accountId)
  }

  async listKeys({ account }: { account?: string | undefined }) {
    const accounts = account === undefined ? this.#accountIds() : [this.#accountOf(account)]
    return accounts
      .flatMap((id) => this.#store.apiKeys.list(id).map((record) => keyDocument(record, id)))
      .sort((a, b) => (a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : 0))
  }

  async revokeKey({ id }: { id: string }) {
    for (const account of this.#accountIds()) {
      const revoked = this.#revoke(account, id)
      if (revoked !== undefined) return revoked
    }
    throw new CellError('api_key_not_found', 'There is no such API key. `cellstore keys list` shows the ids.')
  }

  async createCell({ account, name: cellName }: CreateCellInput) {
    const { id } = this.#store.createCell({ accountId: this.#accountOf(account), name: cellName })
    return cellDocument(this.#store.findCell(id) as CellRecord)
  }

  async listCells({ account, cursor }: { account?: string | undefined; cursor?: string | undefined }) {
    const accountId = account === undefined ? undefined : this.#accountOf(account)
    const { cells, nextCursor } = this.#store.cells({ accountId, cursor })
    return { databases: cells.map(cellDocument), next_cursor: nextCursor }
  }

  async deleteCell({ cell }: { cell: string }) {
    await this.#service.deleteCell(cell)
    return { id: cell, deleted: true as const }
  }

  async sql({ cell, sql, params }: { cell: string; sql: string; params?: unknown }) {
    const limits = DEFAULT_HTTP_LIMITS.result
    const decoded = decodeParams(params, false)
    // A request may not wait for as long as a restore may take; a command may.
    await this.#service.ensureLocal(cell)
    const result = await this.#service.execute(cell, { op: 'sql', sql, params: decoded, limits })
    return encodeSqlResult(result)
  }

  async backup({ cell, kind }: BackupInput, transfer: Transfer = {}) {
    return backupDocument(await this.#service.backup(cell, kind, transfer))
  }

  async restore({ cell, version }: { cell: string; version?: string | undefined }, transfer: Transfer = {}) {
    return restoreDocument(await this.#service.restore(cell, { version, ...transfer }))
  }

  async listBackups({ cell, cursor }: { cell: string; cursor?: string | undefined }) {
    const { backups, nextCursor } = await this.#service.listBackups(cell, { cursor })
    return { backups: backups.map(storedBackupDocument), next_cursor: nextCursor }
  }

  async close(): Promise<void> {
    await this.#store.close()
  }

  #accountIds(): string[] {
    return this.#store.accounts.list().map(({ id }) => id)
  }

  /** The account that is named, or else the only one there is. */
  #accountOf(named: string | undefined): string {
    if (named !== undefined && this.#store.accounts.find(named) !== undefined) return named
    const ids = this.#accountIds()
    const [only] = ids
    if (named === undefined && only !== undefined && ids.length === 1) return only
    throw new CellError('invalid_request', whichAccount(named, ids), { field: 'account' })
  }

  #revoke(account: string, id: string) {
    try {
      const { revokedAt } = this.#store.apiKeys.revoke(account, id)
      return { id, revoked: true as const, revoked_at: timeOf(revokedAt) }
    } catch (error) {
      if (isCellError(error, 'api_key_not_found')) return undefined
      throw error
    }
  }
}

function whichAccount(named: string | undefined, ids: readonly string[]): string {
  if (ids.length === 0)
    return 'There is no account yet. `cellstore keys create --new-account` makes one, with a key.'
  const more = ids.length > ACCOUNTS_NAMED_MAX ? `, and ${ids.length - ACCOUNTS_NAMED_MAX} more` : ''
  const list = ids.slice(0, ACCOUNTS_NAMED_MAX).join(', ') + more
  if (named !== undefined)
    return `There is no such account. There ${ids.length === 1 ? 'is' : 'are'} ${list}.`
  return `There are ${ids.length} accounts: name one with --account. They are ${list}.`
}
