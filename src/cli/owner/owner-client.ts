import type { Readable } from 'node:stream'
import type { BackupKind, BackupOptions } from '../../backup/versions/backup-types.ts'
import type { Clock } from '../../base/clock.ts'
import { OPERATIONS } from '../../client/operations.generated.ts'
import type { ClusterStatus } from '../../cluster/cluster-status.ts'
import type { AccountDocument, AccountPageDocument } from '../../http/answers/account-answers.ts'
import type { RevokedKeyDocument } from '../../http/answers/api-key-answers.ts'
import type {
  BackupDocument,
  BackupPageDocument,
  PinDocument,
  RestoreDocument,
  RestorePlanDocument,
  RetentionDocument,
} from '../../http/answers/backup-answers.ts'
import type { CellSummaryDocument, DeletedCellDocument } from '../../http/answers/cell-answers.ts'
import type { StatusDocument } from '../../http/answers/status-answers.ts'
import type {
  CellDocument,
  CellPageDocument,
  CreatedKeyDocument,
  KeyDocument,
  RotatedKeyDocument,
} from '../../http/routes/owner/owner-routes.ts'
import type { RecoverDocument } from '../../http/routes/owner/recover-actions.ts'
import type { PlanDocument, PurgeDocument } from '../../http/routes/owner/retention-actions.ts'
import type { StoreDocument, VerifyDocument } from '../../http/routes/owner/verify-actions.ts'
import type { SqlDocument } from '../../service/json/sql-answers.ts'
import {
  type BatchInput,
  type CreateCellInput,
  type CreateKeyInput,
  type ImportCellInput,
  type ListCellsInput,
  onceRestored,
  type RestoreInput,
  type RotateKeyInput,
  type SqlInput,
} from '../store-client.ts'
import { errorOfProblem } from '../terminal/report-error.ts'

/** Carries requests to the routes of src/http/routes/owner/owner-routes.ts, wherever the store is open. */
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

/** A method of the client: a route below `/owner`, where `{…}` stands for the cell of the input, or its id. */
interface Operation<Input, Answer> {
  method: string
  path: string | ((input: Input) => string)
  /** What is sent; by default the other fields of the input. */
  body?: ((input: Input) => object) | undefined
  /** A type alone. */
  answer?: Answer
}

function operation<Input, Answer>(
  method: string,
  path: Operation<Input, Answer>['path'],
  body?: (input: Input) => object,
): Operation<Input, Answer> {
  return { method, path, body }
}

/** What accounts can ask too is where the generated client finds it. */
function shared<Input, Answer>(id: keyof typeof OPERATIONS, body?: (input: Input) => object) {
  const { method, path } = OPERATIONS[id]
  return operation<Input, Answer>(method, path.slice('/v1'.length), body)
}

type ById = { id: string }
type OfCell = { cell: string }
type OfVersion = OfCell & { version: string }
type Page = { cursor?: string | undefined }
type VerifyInput = OfCell & { version?: string | undefined; deep?: boolean | undefined }
type PruneInput = OfCell & { dryRun?: boolean | undefined }

const OWNER_OPERATIONS = {
  /** @throws `invalid_request` if it is not clear whose key it should be */
  createKey: shared<CreateKeyInput, CreatedKeyDocument>('createApiKey', ({ newAccount, ...fields }) => ({
    ...fields,
    new_account: newAccount,
  })),
  rotateKey: shared<RotateKeyInput, RotatedKeyDocument>('rotateApiKey'),
  listKeys: shared<{ account?: string | undefined }, KeyDocument[]>('listApiKeys'),
  revokeKey: shared<ById, RevokedKeyDocument>('revokeApiKey'),

  createAccount: shared<{ name?: string | undefined }, AccountDocument>('createAccount'),
  /** In the order they were made. */
  listAccounts: shared<Page, AccountPageDocument>('listAccounts'),
  /** @throws `account_not_found`, as do the next two */
  account: shared<ById, AccountDocument>('getAccount'),
  setSuspended: operation<ById & { suspended: boolean }, AccountDocument>(
    'POST',
    ({ suspended }) => `/accounts/{id}/${suspended ? 'suspend' : 'resume'}`,
    () => ({}),
  ),
  /** All quotas at once. */
  setQuotas: shared<ById & Pick<AccountDocument, 'quotas'>, AccountDocument>(
    'setAccountQuotas',
    ({ quotas }) => quotas,
  ),

  createCell: shared<CreateCellInput, CellDocument>(
    'createCell',
    ({ account, name, from: cell_id, version, timestamp }) => ({
      account,
      name,
      from: cell_id === undefined ? undefined : { cell_id, version, timestamp },
    }),
  ),
  listCells: shared<ListCellsInput, CellPageDocument>('listCells'),
  renameCell: shared<OfCell & { name: string | null }, CellSummaryDocument>('renameCell'),
  exportCell: shared<OfCell, Readable>('exportCell'),
  importCell: operation<ImportCellInput, CellDocument>(
    'POST',
    ({ account, name }) => `/databases/import${queryOf({ account, name })}`,
  ),
  deleteCell: shared<OfCell, DeletedCellDocument>('deleteCell'),
  sql: shared<SqlInput, SqlDocument>('sql'),
  batch: shared<BatchInput, { results: SqlDocument[] }>('batch'),

  backup: operation<OfCell & { kind: BackupKind }, BackupDocument>(
    'POST',
    ({ kind }) => `/databases/{cell}/backup${kind === 'snapshot' ? '' : '/incr'}`,
    () => ({}),
  ),
  restore: shared<RestoreInput, RestoreDocument>('restore'),
  planRestore: shared<RestoreInput, RestorePlanDocument>('restore', ({ cell: _, ...moment }) => ({
    ...moment,
    dry_run: true,
  })),
  /** Newest first. */
  listBackups: shared<OfCell & Page, BackupPageDocument>('listBackups'),
  /** Restores a cell whose data is not on the node's machine from its newest backup. @throws `no_backup`, `backup_corrupt` */
  recover: operation<OfCell, RecoverDocument>('POST', '/databases/{cell}/recover'),
  /** Proves that a version, by default the newest, can be restored. @throws `backup_corrupt` with the object and the member */
  verify: operation<VerifyInput, VerifyDocument>('POST', '/databases/{cell}/backups/verify'),
  /** Removes what the cell's plan no longer keeps, and marks what goes next. */
  prune: operation<PruneInput, RetentionDocument>(
    'POST',
    '/databases/{cell}/backups/prune',
    ({ dryRun }) => ({
      dry_run: dryRun,
    }),
  ),
  /** Removes all backups of a deleted cell. */
  purge: operation<OfCell, PurgeDocument>('POST', '/databases/{cell}/backups/purge', ({ cell }) => ({
    confirm: cell,
  })),
  /** @throws `backup_not_found`, `invalid_version` */
  pin: operation<OfVersion, PinDocument>('POST', '/databases/{cell}/backups/pin'),
  unpin: operation<OfVersion, PinDocument>('POST', '/databases/{cell}/backups/unpin'),
  /** The cell's own plan; null if it has none. */
  plan: operation<OfCell, PlanDocument>('GET', '/databases/{cell}/backups/plan'),
  /** With null the store's plan holds again. @throws `invalid_request` */
  setPlan: operation<OfCell & { plan: string | null }, PlanDocument>('PUT', '/databases/{cell}/backups/plan'),

  /** How the running node is. @throws `store_closed` if none runs */
  status: operation<object, StatusDocument>('GET', '/status'),
  /** How the nodes are. @throws `invalid_request` if the node is alone, as do the next three */
  cluster: operation<object, ClusterStatus>('GET', '/cluster'),
  drainNode: operation<{ node: string }, object>('POST', '/cluster/drain'),
  balanceNodes: operation<object, object>('POST', '/cluster/balance'),
  leaveCluster: operation<{ last?: boolean | undefined }, object>('POST', '/cluster/leave'),
  /** Whose backups `verify` takes for the catalog's. */
  store: operation<object, StoreDocument>('GET', '/store'),
}

type Method<O> =
  O extends Operation<infer Input, infer Answer>
    ? object extends Input
      ? (input?: Input, options?: BackupOptions) => Promise<Answer>
      : (input: Input, options?: BackupOptions) => Promise<Answer>
    : never

/**
 * What the owner of a store can ask of it: an HTTP client, whether this process or a running node has the store open. The
 * owner stands above accounts: ids of all of them are good.
 */
export type OwnerClient = {
  [Name in Exclude<keyof typeof OWNER_OPERATIONS, 'batch'>]: Method<(typeof OWNER_OPERATIONS)[Name]>
} & {
  batch(input: BatchInput, options?: BackupOptions): Promise<SqlDocument[]>
  /** What a person should know of what was changed here, if no node runs that will store it. Call it before the close. */
  readonly unstored: string | undefined
  /** Closes the store if it is open in this process. */
  close(): Promise<void>
}

export function ownerClient(transport: Transport, clock: Clock): OwnerClient {
  const { sql, batch, ...others } = OWNER_OPERATIONS
  const methods = Object.entries<Operation<never, unknown>>(others).map(([name, each]) => [
    name,
    (input = {}, options?: BackupOptions) => ask(transport, each, input as never, options),
  ])
  const statement: OwnerClient['sql'] = (input, options) =>
    onceRestored(() => ask(transport, sql, input, options), clock, options)
  const statements: OwnerClient['batch'] = async (input, options) =>
    (await onceRestored(() => ask(transport, batch, input, options), clock, options)).results
  return {
    ...(Object.fromEntries(methods) as Omit<OwnerClient, 'sql' | 'batch' | 'unstored' | 'close'>),
    sql: statement,
    batch: statements,
    get unstored() {
      return transport.unstored?.()
    },
    close: () => transport.close(),
  }
}

async function ask<Input extends object, Answer>(
  transport: Transport,
  { method, path, body }: Operation<Input, Answer>,
  input: Input,
  options: BackupOptions = {},
): Promise<Answer> {
  const template = typeof path === 'string' ? path : path(input)
  const { cell, id, file, ...rest } = input as { cell?: string; id?: string; file?: OwnerRequest['file'] }
  const target = template.replace(/\{\w+\}/, encode(cell ?? id ?? ''))
  const fields = body?.(input) ?? rest
  const isRead = method === 'GET' || method === 'DELETE'
  const answer = await transport.send({
    ...options,
    method,
    target: `/owner${target}${isRead ? queryOf(fields) : ''}`,
    ...(file === undefined ? { body: isRead ? undefined : JSON.stringify(fields) } : { file }),
  })
  if (answer.file !== undefined) return answer.file as Answer
  const document: unknown = JSON.parse(answer.body)
  if (answer.status >= 400) throw errorOfProblem(Object(document), ANOTHER_VERSION)
  return document as Answer
}

function queryOf(fields: object): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value))
  return query.size === 0 ? '' : `?${query}`
}

/** Text with lone surrogates is no id, and the encoder would throw for it. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}
