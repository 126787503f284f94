import * as z from 'zod'
import { definedOnly } from '../../base/options/option-shapes.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import { CellError, isCellError } from '../../errors.ts'
import { name } from '../../service/json/fields.ts'
import { timeOf } from '../../service/json/time.ts'
import { Query } from '../../service/requests/query.ts'
import type { CreatedCell } from '../../store/cells/cell-creations.ts'
import type { CellDirectory, CreateCellOptions } from '../../store/cells/cell-directory.ts'
import type {
  CellSummaryDocument,
  DeletedCellDocument,
  DescribedCellDocument,
  ListedCellDocument,
} from '../answers/cell-answers.ts'
import {
  type AccountCall,
  accountActionWith,
  accountActionWithQuery,
  type CellCall,
  cellAction,
  cellActionWith,
  emptyBody,
  type HttpContext,
  ok,
  takeTurn,
} from '../core/action.ts'
import { fingerprintOf, IDEMPOTENCY_HEADER, parseIdempotencyKey } from '../core/idempotency.ts'
import { checkIsHere } from '../forwarding/elsewhere.ts'
import type { Listed } from '../forwarding/listed-elsewhere.ts'
import { branchCell, decodeSource, sourceField } from './branch-actions.ts'
import { logCellChange } from './change-log.ts'

const COLLECTION = '/v1/databases'

/** Row 4 of the contract: it ignores unknown fields. The fingerprint covers them too. */
const createSchema = z.looseObject({ name: name.nullish(), from: sourceField })

export const createCell = accountActionWith(
  createSchema,
  async (call, sent) => {
    const { context, request } = call
    const body = withName(sent, request.query)
    const header = request.header(IDEMPOTENCY_HEADER)
    const idempotency =
      header === undefined
        ? undefined
        : {
            method: 'POST',
            path: COLLECTION,
            key: parseIdempotencyKey(header),
            fingerprint: fingerprintOf(body),
          }
    // The first request may have been another node's.
    if (idempotency !== undefined) await context.cluster?.catchUp()
    const { store } = context
    const named = { name: body.name ?? undefined, idempotency }
    if (body.from != null) checkIsHere(context.cluster, decodeSource(body.from).cellId)
    const { id, replayed } =
      body.from == null ? await createEmpty(call, named) : await branchCell(call, body.from, named)
    if (replayed) checkIsHere(context.cluster, id)
    else logCellChange(call, 'a cell is created', id)
    if (body.from == null) await context.service.confirmCell(id)
    // A repetition gets the first answer: the cell may have another name by now.
    const record = { ...(store.findCell(id) as CellRecord), name: named.name ?? null }
    const headers: Record<string, string> = { Location: `${request.mount}${COLLECTION}/${id}` }
    if (replayed) headers['Idempotent-Replayed'] = 'true'
    return { ...ok(encodeCell(record)), status: 201, headers }
  },
  ['name'],
)

async function createEmpty(
  { context: { store, storedBytes }, accountId, permit }: AccountCall,
  options: Pick<CreateCellOptions, 'name' | 'idempotency'>,
): Promise<CreatedCell> {
  return await store.inTurn(accountId, () => {
    permit?.check()
    const admit = () => storedBytes?.checkRoomForCell(accountId)
    return store.addCell({ accountId, admit, ...options })
  })
}

/** The name may come as it does with a database: in the query. @throws `invalid_request` for two names */
function withName(body: z.infer<typeof createSchema>, query: string): z.infer<typeof createSchema> {
  const asked = new Query(query, ['name']).text('name')
  if (asked === undefined || asked === body.name) return body
  if (body.name != null)
    throw new CellError('invalid_request', 'name is in the body and, another one, in the query.', {
      field: 'name',
    })
  return { ...body, name: asked }
}

export const listCells = accountActionWithQuery(
  ['name', 'deleted', 'cursor', 'limit'],
  async (call, query) => {
    const { context, accountId } = call
    await takeTurn(call, accountId)
    return ok(await cellPage(context, query, accountId, (cell) => encodeListed(context.store, cell)))
  },
)

/** A page of cells: of those that exist, or of those that were deleted. */
export async function cellPage<D extends object>(
  { store, limits, listed }: HttpContext,
  query: Query<'name' | 'deleted' | 'cursor' | 'limit'>,
  accountId: string | undefined,
  encode: (cell: CellRecord) => D,
) {
  const limit = query.limit(limits.pageDefault, store.settings.limits.pageMax)
  const deleted = query.flag('deleted')
  const asked = { accountId, name: query.text('name'), deleted, cursor: query.text('cursor'), limit }
  const { cells, nextCursor } = store.cellRecords(definedOnly(asked))
  const ids = cells.map(({ id }) => id)
  const [here, elsewhere] = await Promise.all([lookAtCells(store, ids), listed?.of(ids)])
  const databases = cells.map((cell): D & Listed => ({
    ...encode(cell),
    ...(here[cell.id] as Listed),
    ...elsewhere?.get(cell.id),
  }))
  return { databases, next_cursor: nextCursor }
}

/** What only the node that has the cells can tell of them, by their ids. */
export async function lookAtCells(
  store: CellDirectory,
  ids: readonly string[],
): Promise<Record<string, Listed>> {
  const looks = await store.lookAt(ids)
  return Object.fromEntries(
    ids.map((id, i) => {
      const { sizeBytes = 0, isQuarantined = false } = looks[i] ?? {}
      const isDeleted = store.findCell(id)?.deletedAt != null
      const status = isDeleted ? {} : { status: statusOf(isQuarantined) }
      return [id, { ...encodeStored(store, { id }), ...status, size_bytes: sizeBytes }]
    }),
  )
}

export const getCell = cellAction(async (call) => {
  // It asks the worker, the local state and perhaps the object store.
  await takeTurn(call, call.cell.accountId)
  const { sizeBytes, quarantine } = await call.context.service.describe(call.cellId)
  const status = encodeStatus(quarantine)
  const { store } = call.context
  const stored = { ...encodeStored(store, call.cell), ...(await lastBackup(call)) }
  const { cluster } = call.context
  const node = cluster && { node: { id: cluster.self.nodeId, address: cluster.self.address } }
  return ok({ ...encodeCell(call.cell), ...status, size_bytes: sizeBytes, ...stored, ...node })
})

const renameSchema = z.strictObject({ name: name.nullable() })

export const renameCell = cellActionWith(renameSchema, async (call, body) => {
  const { context, cellId, cell } = call
  const { store } = context
  await takeTurn(call, cell.accountId)
  if (call.accountId !== undefined) store.chargeRename(call.accountId)
  await store.durably(() => store.renameCell(cellId, body.name))
  logCellChange(call, 'a cell is renamed', cellId)
  await context.service.confirmRecord(cellId)
  return ok(encodeCell(store.findCell(cellId) as CellRecord))
})

export const deleteCell = cellActionWith(emptyBody, async (call) => {
  const { context, cellId, cell, requestId, permit } = call
  await takeTurn(call, cell.accountId)
  await context.service.deleteCell(cellId, { requestId, permit })
  return ok(encodeDeletedCell(cellId))
})

function encodeDeletedCell(id: string): DeletedCellDocument {
  return { id, deleted: true }
}

export function encodeCell({ id, name, createdAt }: CellRecord): CellSummaryDocument {
  return { id, name, created_at: timeOf(createdAt) }
}

/** A cell in a listing, but for its size. */
export function encodeListed(
  store: CellDirectory,
  cell: CellRecord,
): Omit<ListedCellDocument, 'size_bytes' | 'status'> {
  const known = { ...encodeCell(cell), ...encodeStored(store, cell) }
  return cell.deletedAt === null ? known : { ...known, deleted_at: timeOf(cell.deletedAt) }
}

/** What this machine knows of what is stored of the cell, without a question to the object store. */
function encodeStored(
  store: CellDirectory,
  { id }: Pick<CellRecord, 'id'>,
): Pick<DescribedCellDocument, 'backed_up_to' | 'last_stored_at' | 'last_proven'> {
  const proof = store.retention?.lastProven(id)
  return {
    backed_up_to: timeOf(store.backedUpTo(id)),
    last_stored_at: timeOf(store.retention?.lastStoredAt(id) ?? null),
    last_proven: proof === undefined ? null : { version: proof.version, proven_at: timeOf(proof.provenAt) },
  }
}

function statusOf(isQuarantined: boolean): DescribedCellDocument['status'] {
  return isQuarantined ? 'quarantined' : 'ok'
}

function encodeStatus(
  quarantine: QuarantineState | undefined,
): Pick<DescribedCellDocument, 'status' | 'quarantine'> {
  if (quarantine === undefined) return { status: 'ok' }
  return { status: 'quarantined', quarantine: { reason: quarantine.reason, since: timeOf(quarantine.since) } }
}

/**
 * The newest backup that can be restored; null if there is none, or no object store. If the object store does not answer,
 * a second member says so: the cell itself works on.
 */
async function lastBackup(
  call: CellCall,
): Promise<Pick<DescribedCellDocument, 'last_backup' | 'last_backup_unknown'>> {
  try {
    return { last_backup: await newestBackup(call) }
  } catch (error) {
    if (isCellError(error, 'object_store_not_configured')) return { last_backup: null }
    if (isCellError(error, 'object_store_unavailable') || isCellError(error, 'object_store_error')) {
      return { last_backup: null, last_backup_unknown: true }
    }
    throw error
  }
}

async function newestBackup({ context, cellId }: CellCall): Promise<DescribedCellDocument['last_backup']> {
  const last = await context.service.backups.latest(cellId)
  return last === undefined
    ? null
    : { version: last.version, kind: last.kind, created_at: timeOf(last.createdAt) }
}
