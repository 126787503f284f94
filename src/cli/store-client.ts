import type { KeyAccess, KeySurface } from '../auth/key-scope.ts'
import type { BackupKind, BackupOptions } from '../backup/versions/backup-types.ts'
import { type Clock, delay } from '../base/clock.ts'
import { isCellError } from '../errors.ts'
import type { RevokedKeyDocument } from '../http/answers/api-key-answers.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  RestoreDocument,
  RestorePlanDocument,
} from '../http/answers/backup-answers.ts'
import type { CellSummaryDocument, DeletedCellDocument } from '../http/answers/cell-answers.ts'
import type * as owner from '../http/routes/owner/owner-routes.ts'
import type { SqlDocument } from '../service/json/sql-answers.ts'

/**
 * What commands ask of a store, wherever it is: on this machine for its owner, who sees all accounts (`OwnerClient`), or on a
 * remote node with the key of one account (`RemoteClient`).
 *
 * Every method rejects with a `CellError`, or as an aborted signal does.
 */
export interface StoreClient {
  /** Makes a key: of the account that is named, of a new one, or of the only one. */
  createKey(input: CreateKeyInput): Promise<CreatedKeyDocument>
  /** Active keys, newest first; of every account, or of one. */
  listKeys(input: { account?: string | undefined }): Promise<KeyDocument[]>
  /** Makes a key in place of another one, which ends. @throws `api_key_not_found` */
  rotateKey(input: RotateKeyInput): Promise<RotatedKeyDocument>
  /** @throws `api_key_not_found` */
  revokeKey(input: { id: string }): Promise<RevokedKeyDocument>

  /** Makes a cell: of the account that is named, or of the only one. With `from`, it gets a state of that cell. */
  createCell(input: CreateCellInput, options?: BackupOptions): Promise<CellDocument>
  /** Cells in the order they were made; of every account, or of one. */
  listCells(input: ListCellsInput): Promise<CellPageDocument>
  /** Gives a cell another name; null: none. @throws `name_taken` */
  renameCell(input: { cell: string; name: string | null }): Promise<CellSummaryDocument>
  /** The cell as a SQLite file, as its bytes come. */
  exportCell(input: { cell: string }, options?: BackupOptions): Promise<AsyncIterable<Uint8Array>>
  /** Makes a cell of a database. @throws `invalid_database` */
  importCell(input: ImportCellInput, options?: BackupOptions): Promise<CellDocument>
  /** @throws `cell_not_found` */
  deleteCell(input: { cell: string }): Promise<DeletedCellDocument>

  /**
   * Runs one statement, under the policy and the limits for accounts. If the cell has to be restored first, this waits for as
   * long as that takes.
   *
   * @param input.params as in the HTTP interface
   */
  sql(input: SqlInput, options?: CallOptions): Promise<SqlDocument>
  /** Runs statements in one transaction: all of them, or none. @throws what a statement throws, with its `index` */
  batch(input: BatchInput, options?: CallOptions): Promise<SqlDocument[]>

  backup(input: { cell: string; kind: BackupKind }, options?: BackupOptions): Promise<BackupDocument>
  /** By default to the newest version. */
  restore(input: RestoreInput, options?: BackupOptions): Promise<RestoreDocument>
  /** What a restore would do. */
  planRestore(input: RestoreInput): Promise<RestorePlanDocument>
  /** Newest first. */
  listBackups(input: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument>
}

/** A document as the client of an account gives it: the account is not in it, because a key sees no other. */
type OfAccount<Document extends { account_id: unknown }> = Omit<Document, 'account_id'> &
  Partial<Pick<Document, 'account_id'>>

export type CreatedKeyDocument = OfAccount<owner.CreatedKeyDocument>
export type RotatedKeyDocument = OfAccount<owner.RotatedKeyDocument>
export type KeyDocument = OfAccount<owner.KeyDocument>
export type CellDocument = OfAccount<owner.CellDocument>
export type CellPageDocument = Omit<owner.CellPageDocument, 'databases'> & {
  databases: (CellDocument & { size_bytes: number; deleted_at?: string | undefined })[]
}

export interface CreateKeyInput {
  account?: string | undefined
  newAccount?: boolean | undefined
  name?: string | undefined
  /** As in the HTTP interface, as are the next ones. */
  access?: KeyAccess | undefined
  cell_ids?: string[] | undefined
  surface?: KeySurface | undefined
  expires_at?: string | undefined
}

export interface RotateKeyInput {
  id: string
  /** As in the HTTP interface. */
  grace_ms?: number | undefined
  expires_at?: string | undefined
}

/** A cell and one of its states: by default the one that was backed up last. */
export interface RestoreInput {
  cell: string
  version?: string | undefined
  /** RFC 3339. */
  timestamp?: string | undefined
}

interface NewCellInput {
  account?: string | undefined
  name?: string | undefined
}

export interface CreateCellInput extends NewCellInput {
  /** The cell whose state the new one gets, and which state. */
  from?: string | undefined
  version?: string | undefined
  /** RFC 3339. */
  timestamp?: string | undefined
}

export interface ImportCellInput extends NewCellInput {
  file: AsyncIterable<Uint8Array>
}

export interface ListCellsInput {
  account?: string | undefined
  name?: string | undefined
  deleted?: boolean | undefined
  cursor?: string | undefined
}

export interface SqlInput {
  cell: string
  sql: string
  params?: unknown
}

export interface BatchInput {
  cell: string
  operations: readonly { sql: string }[]
}

/** An aborted call rejects. What it asked for may have happened. */
export type CallOptions = Pick<BackupOptions, 'signal'>

/** A restore goes on when a request has waited for long enough, and the next request waits for the same restore. */
const RESTORING_RETRY_MS = 1_000

/** If the cell has to be restored first, this waits for as long as that takes. */
export async function onceRestored<T>(
  call: () => Promise<T>,
  clock: Clock,
  { signal }: CallOptions = {},
): Promise<T> {
  for (;;) {
    signal?.throwIfAborted()
    try {
      return await call()
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
    }
    await delay(clock, RESTORING_RETRY_MS)
  }
}
