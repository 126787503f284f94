import { z } from 'zod'
import type { CellRecord } from '../engine/cell-registry.ts'
import { isCellError } from '../errors.ts'
import { accountAction, accountActionWith, type CellCall, cellAction, ok } from './action.ts'
import { name } from './fields.ts'
import { fingerprintOf, IDEMPOTENCY_HEADER, parseIdempotencyKey } from './idempotency.ts'
import { Query } from './query.ts'
import { timeOf } from './time.ts'

const COLLECTION = '/v1/databases'

/** Keeps what it does not know: the fingerprint is of the whole body. */
const createSchema = z.looseObject({ name: name.nullish() })

export const createCell = accountActionWith(createSchema, ({ context, request, accountId }, body) => {
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
  const { id, replayed } = context.store.createCell({
    accountId,
    ...(body.name == null ? {} : { name: body.name }),
    ...(idempotency === undefined ? {} : { idempotency }),
  })
  const record = context.store.findCell(id) as CellRecord
  const headers: Record<string, string> = { Location: `${request.mount}${COLLECTION}/${id}` }
  if (replayed) headers['Idempotent-Replayed'] = 'true'
  return { ...ok(encodeCell(record)), status: 201, headers }
})

export const listCells = accountAction(({ context, request, accountId }) => {
  const { store, limits } = context
  const query = new Query(request.query)
  const limit = query.limit(limits.pageDefault, store.settings.limits.pageMax)
  const { cells, nextCursor } = store.cells({ accountId, cursor: query.text('cursor'), limit })
  return ok({ databases: cells.map(encodeCell), next_cursor: nextCursor })
})

export const getCell = cellAction(async (call) => {
  const size_bytes = await call.context.service.sizeBytes(call.cellId)
  return ok({ ...encodeCell(call.cell), size_bytes, last_backup: await lastBackup(call) })
})

export const deleteCell = cellAction(({ context, cellId }) => {
  context.store.deleteCell(cellId)
  return ok({ id: cellId, deleted: true })
})

function encodeCell({ id, name, createdAt }: CellRecord) {
  return { id, name, created_at: timeOf(createdAt) }
}

/** Null where no object store is configured: there can be no backup then. */
async function lastBackup({ context, cellId }: CellCall) {
  try {
    const { backups } = await context.service.listBackups(cellId, { limit: 1 })
    const [last] = backups
    return last === undefined
      ? null
      : { version: last.version, kind: last.kind, created_at: timeOf(last.createdAt) }
  } catch (error) {
    if (isCellError(error, 'object_store_not_configured')) return null
    throw error
  }
}
