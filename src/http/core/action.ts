import * as z from 'zod'
import type { KeyScope } from '../../auth/key-scope.ts'
import { isCellId } from '../../base/files/store-paths.ts'
import { type CellRecord, cellNotFound } from '../../catalog/cell-registry.ts'
import { type CellError, type CellErrorCode, isCellError } from '../../errors.ts'
import type { CellService, OperationPermit } from '../../service/cell-service.ts'
import { parseFields } from '../../service/json/fields.ts'
import type { JsonText } from '../../service/operations.ts'
import { Query, refuseQuery } from '../../service/requests/query.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import type { ProblemDocument } from '../answers/problem-document.ts'
import type { FileBody } from '../body/file-body.ts'
import type { JsonBody } from '../body/request-body.ts'
import type { ClusterPeers } from '../forwarding/cluster-peers.ts'
import type { ListedElsewhere } from '../forwarding/listed-elsewhere.ts'
import type { HttpLimits } from '../handler-options.ts'
import type { HranaStreams } from '../hrana/hrana-streams.ts'
import type { BackupCharges } from '../quotas/backup-charges.ts'
import type { KeptBackups } from '../quotas/kept-backups.ts'
import type { OpenStreams } from '../quotas/open-streams.ts'
import type { StoredBytesQuota } from '../quotas/stored-bytes-quota.ts'
import type { BegunRestores } from '../routes/begun-restores.ts'
import type { NodeView } from '../routes/node/node-view.ts'
import type { BodyStream, HttpRequest } from './http-message.ts'

/** What every route works on. */
export interface HttpContext {
  readonly store: CellDirectory
  readonly service: CellService
  readonly limits: HttpLimits
  readonly backupCharges: BackupCharges
  readonly restores: BegunRestores
  readonly streams: OpenStreams
  readonly hrana: HranaStreams
  /** What of an error its reader may see. */
  show(error: unknown): CellError
  isShuttingDown(): boolean
  /** The problem document of an error that comes after its request was answered. */
  problemOf(error: unknown, method: string, route: string, requestId: string): ProblemDocument
  /** Undefined: no account's bytes are bounded. */
  readonly storedBytes: StoredBytesQuota | undefined
  /** Undefined: any number is kept. */
  readonly keptBackups: KeptBackups | undefined
  /** The OpenAPI document, for clients who find the interface below a path. */
  readonly openApi: (mount: string) => Promise<JsonText>
  /** Undefined in a program that serves handlers of its own. */
  readonly node: NodeView | undefined
  /** Undefined: this node has all cells. */
  readonly cluster: ClusterPeers | undefined
  /** For lists of cells that other nodes have. */
  readonly listed: ListedElsewhere | undefined
}

/** What a key allows that makes a request. */
export interface KeyPermit extends OperationPermit {
  /**
   * The scope of the keys that it may make: after a rotation they end with its grace. Only its own rotation can be repeated, in
   * case the first answer was lost.
   *
   * @param rotatedId the key that is rotated; undefined: a new one is made
   */
  scopeToGive(rotatedId?: string): KeyScope | undefined
}

/** A request whose sender is known and whose body was read. */
export interface Call {
  readonly context: HttpContext
  readonly request: HttpRequest
  readonly requestId: string
  /** The path's segments that stand where the route has `{…}`, as they were sent. */
  readonly segments: readonly string[]
  /** Who asks. Undefined: the store's owner, who stands above accounts. Empty on routes that are open to anyone. */
  readonly accountId: string | undefined
  /** What its key may do. Undefined: the store's owner asks, or the route is open to anyone. */
  readonly scope: KeyScope | undefined
  /** Asked again before a queued operation starts. Undefined on routes that are open to anyone. */
  readonly permit: KeyPermit | undefined
}

/** A call of an account. */
export interface AccountCall extends Call {
  readonly accountId: string
}

/** A call to a cell that the sender may use. */
export interface CellCall extends Call {
  readonly cellId: string
  readonly cell: CellRecord
}

/** A call about a cell's backups: it may be deleted, or unknown to a catalog that was restored from an earlier backup. */
export interface ArchiveCall extends Call {
  readonly cellId: string
  /** Undefined: the catalog does not know the cell, or it is another account's. */
  readonly cell: CellRecord | undefined
}

export type Answer = JsonAnswer | FileAnswer

export interface JsonAnswer {
  status: number
  json: JsonText
  headers?: Record<string, string>
  /** In place of the JSON. */
  stream?: BodyStream | undefined
}

/** Its headers name the file's type. */
export interface FileAnswer {
  status: number
  file: FileBody
  headers: Record<string, string>
}

/** One route's work. Ownership is checked before the body's fields, and both before `run`. */
export interface Action {
  /** False: anyone may ask. The owner's socket takes no key in any case: the file system says who may connect. */
  readonly needsKey: boolean
  readonly takesBody: boolean
  /** It passes its body on as it came. */
  readonly passesOn?: true
  /** The parameters that it takes in the query. */
  readonly query?: readonly string[] | undefined
  /** What the body must be; undefined if it takes none. */
  readonly body?: z.ZodType | undefined
  perform(call: Call, body: JsonBody): Answer | Promise<Answer>
  /** What is done with a body that is a database. Other actions take none. */
  readonly receive?: (call: Call) => Promise<Answer>
}

/** What `run` gets: the call, and the body's fields. */
export type Run<C extends Call, B> = (call: C, body: B) => Answer | Promise<Answer>

export const emptyBody = z.strictObject({})

/** A route that anyone may ask. */
export function openAction(run: (call: Call) => Answer | Promise<Answer>): Action {
  return { needsKey: false, takesBody: false, perform: run }
}

/** A route of the account that the key belongs to. */
export const {
  action: accountAction,
  actionWith: accountActionWith,
  actionWithQuery: accountActionWithQuery,
} = actionsOf(ofAccount)

/** A route of the store's owner. */
export const {
  action: ownerAction,
  actionWith: ownerActionWith,
  actionWithQuery: ownerActionWithQuery,
} = actionsOf(ofOwner)

/** A route of accounts, which the store's owner asks, or a key with the access `owner`. */
export const {
  action: accountsAction,
  actionWith: accountsActionWith,
  actionWithQuery: accountsActionWithQuery,
} = actionsOf((call) => call)

/** A route of a cell that exists and that the sender may use. */
export const {
  action: cellAction,
  actionWith: cellActionWith,
  actionWithQuery: cellActionWithQuery,
} = actionsOf(ofCell)

/** A route of a cell's backups, which outlive it. */
export const {
  action: archiveAction,
  actionWith: archiveActionWith,
  actionWithQuery: archiveActionWithQuery,
} = actionsOf(ownArchive, asShown)

/**
 * Makes routes without and with a body, and with parameters in the query; the others take none.
 *
 * @param admit refuses the call, or returns it with its cell
 * @param shown what the sender sees of an error in an admitted call
 */
function actionsOf<C extends Call>(admit: (call: Call) => C, shown?: (call: C, error: unknown) => unknown) {
  const perform = (call: Call, run: (call: C) => Answer | Promise<Answer>) => {
    const admitted = admit(call)
    return shown === undefined ? run(admitted) : showing(admitted, run, shown)
  }
  return {
    action: (run: (call: C) => Answer | Promise<Answer>): Action => ({
      needsKey: true,
      takesBody: false,
      perform: (call) =>
        perform(call, (admitted) => {
          refuseQuery(call.request.query)
          return run(admitted)
        }),
    }),
    /** @param query the parameters that it takes besides its body */
    actionWith: <B>(schema: z.ZodType<B>, run: Run<C, B>, query: readonly string[] = []): Action => ({
      needsKey: true,
      takesBody: true,
      ...(query.length === 0 ? {} : { query }),
      body: schema,
      perform: (call, { value }) =>
        perform(call, (admitted) => {
          refuseQuery(call.request.query, query)
          return run(admitted, parseFields(schema, value))
        }),
    }),
    actionWithQuery: <Name extends string>(
      names: readonly Name[],
      run: (call: C, query: Query<Name>) => Answer | Promise<Answer>,
    ): Action => ({
      needsKey: true,
      takesBody: false,
      query: names,
      perform: (call) => perform(call, (admitted) => run(admitted, new Query(call.request.query, names))),
    }),
  }
}

async function showing<C extends Call>(
  call: C,
  run: (call: C) => Answer | Promise<Answer>,
  shown: (call: C, error: unknown) => unknown,
): Promise<Answer> {
  try {
    return await run(call)
  } catch (error) {
    throw shown(call, error)
  }
}

/** Reads of the object store what is stored of a cell, in a turn of the account. @throws as `BackupCharges.read()` */
export async function readBackups<T>(
  call: ArchiveCall,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { context, request, accountId } = call
  return await context.backupCharges.read(accountId, request, async (signal) => {
    await takeTurn(call, accountId ?? '')
    return await read(signal)
  })
}

/** Waits for the account's turn at the event loop. Its key may have been revoked meanwhile. @throws as `Permit.check()` */
export async function takeTurn({ context, permit }: Call, accountId: string | null): Promise<void> {
  await context.store.turns.next(accountId ?? '')
  permit?.check()
}

export function ok(value: unknown): JsonAnswer {
  return { status: 200, json: JSON.stringify(value) }
}

/** The owner's routes name the account where they need one, so an account's own routes are not among them. */
export function ofAccount(call: Call): AccountCall {
  if (call.accountId === undefined) throw new Error('A route of an account was asked by the owner.')
  return call as AccountCall
}

function ofOwner(call: Call): Call {
  if (call.accountId !== undefined) throw new Error('A route of the owner was asked by an account.')
  return call
}

/** Absent, deleted, another account's, or not an id: the answer is the same, so that nobody can tell them apart. */
export function ofCell(call: Call): CellCall {
  const cellId = call.segments[0] ?? ''
  const cell = call.context.store.findCell(cellId)
  if (cell === undefined || !mayUse(call, cell) || cell.deletedAt !== null) throw cellNotFound()
  return { ...call, cellId, cell }
}

/**
 * If the catalog does not know the cell, its backups name the account, and the code that reads them checks it. Another
 * account's cell goes the same way, and is refused there: whatever comes before that, such as a quota, tells nothing of it.
 */
function ownArchive(call: Call): ArchiveCall {
  const cellId = call.segments[0] ?? ''
  if (!isCellId(cellId) || !isInScope(call, cellId)) throw cellNotFound()
  const cell = call.context.store.findCell(cellId)
  return { ...call, cellId, cell: cell !== undefined && mayUse(call, cell) ? cell : undefined }
}

const TELLING: readonly CellErrorCode[] = ['backup_not_found', 'invalid_version', 'invalid_request']

/** No account may learn from the kind of refusal whether a cell that is not its own exists. */
export function asShown(
  { accountId, cell }: Pick<ArchiveCall, 'accountId' | 'cell'>,
  error: unknown,
): unknown {
  const tells = accountId !== undefined && cell === undefined
  return tells && TELLING.some((code) => isCellError(error, code)) ? cellNotFound() : error
}

function mayUse(call: Call, cell: CellRecord): boolean {
  return (call.accountId === undefined || cell.accountId === call.accountId) && isInScope(call, cell.id)
}

/** Whether the key is for the cell: for others of its account it has the answer of another account's. */
function isInScope({ scope }: Call, cellId: string): boolean {
  return scope === undefined || scope.cellIds === null || scope.cellIds.includes(cellId)
}
