import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  CellDocument,
  CellPageDocument,
  CreatedKeyDocument,
  KeyDocument,
  RestoreDocument,
  RevokedKeyDocument,
  SqlDocument,
} from './documents.ts'

/**
 * What the owner of a store can ask of it, whoever holds it: this process, or a running node that is reached through its
 * socket. Plain JSON in and out. The owner stands above accounts: ids of all of them are good.
 *
 * Every method rejects with a `CellError`.
 */
export interface AdminService {
  /**
   * Makes a key of an account: of the one named, of a new one, or of the only one there is.
   *
   * @throws `invalid_request` if it is not clear whose key it should be
   */
  createKey(input: CreateKeyInput): Promise<CreatedKeyDocument>

  /** Active keys, newest first; of every account, or of one. */
  listKeys(input: { account?: string | undefined }): Promise<KeyDocument[]>

  /** @throws `api_key_not_found` */
  revokeKey(input: { id: string }): Promise<RevokedKeyDocument>

  /** Makes a cell of an account: of the one named, or of the only one there is. */
  createCell(input: CreateCellInput): Promise<CellDocument>

  /** Cells in the order they were made; of every account, or of one. */
  listCells(input: { account?: string | undefined; cursor?: string | undefined }): Promise<CellPageDocument>

  /** @throws `cell_not_found` */
  deleteCell(input: { cell: string }): Promise<{ id: string; deleted: true }>

  /** Runs one statement, under the same policy and limits as over HTTP. `params` are in JSON, as the contract has them. */
  sql(input: { cell: string; sql: string; params?: unknown }): Promise<SqlDocument>

  backup(input: BackupInput, transfer?: Transfer): Promise<BackupDocument>

  /** @param input.version the newest, if none is named */
  restore(
    input: { cell: string; version?: string | undefined },
    transfer?: Transfer,
  ): Promise<RestoreDocument>

  /** Newest first. */
  listBackups(input: { cell: string; cursor?: string | undefined }): Promise<BackupPageDocument>

  /** Lets go of the store, or of the connection to its node. */
  close(): Promise<void>
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

export interface BackupInput {
  cell: string
  kind: 'snapshot' | 'incremental'
}

/** For what takes its time. */
export interface Transfer {
  signal?: AbortSignal | undefined
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
}
