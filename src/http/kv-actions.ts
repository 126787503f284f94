import type * as z from 'zod'
import { definedOnly } from '../base/option-shapes.ts'
import { CellError } from '../errors.ts'
import { encodeEntry, encodeExpire, encodeFound, encodeIncr, encodePut } from '../service/json/documents.ts'
import {
  decodeExpire,
  decodeIncr,
  decodeKeys,
  decodePut,
  expireSchema,
  incrSchema,
  keySchema,
  keysSchema,
  msetSchema,
  putSchema,
} from '../service/json/kv-body.ts'
import {
  type CellCall,
  cellAction,
  cellActionOfBody,
  cellActionWith,
  cellActionWithQuery,
  decodeKey,
  emptyBody,
  ok,
  type Run,
} from './action.ts'
import { NOT_MODIFIED } from './http-message.ts'
import { changeCondition, deleteCondition, etagOf, isNotModified, refuseConditions } from './preconditions.ts'
import { runBody } from './run-body.ts'

export const putEntry = cellActionWith(putSchema, async (call, body) => {
  const { context, request, cellId, permit, requestId, segments } = call
  const put = decodePut(decodeKey(segments[1] ?? ''), body, changeCondition(request))
  const result = await context.service.execute(cellId, put, { permit, requestId })
  return { ...ok(encodePut(result)), headers: { ETag: etagOf(result.version) } }
})

export const getEntry = cellAction(async ({ context, request, cellId, permit, requestId, segments }) => {
  const entry = await context.service.execute(
    cellId,
    { op: 'kv.get', key: decodeKey(segments[1] ?? '') },
    { permit, requestId },
  )
  if (entry === undefined) throw new CellError('key_not_found', 'No entry has this key, or it has expired.')
  const headers = { ETag: etagOf(entry.version) }
  if (isNotModified(request, entry.version)) return { status: NOT_MODIFIED, json: '', headers }
  return { ...ok(encodeEntry(entry)), headers }
})

/** A condition in its body would be one that nobody judges. */
export const deleteEntry = cellActionWith(emptyBody, async (call) => {
  const { context, request, cellId, permit, requestId, segments } = call
  const key = decodeKey(segments[1] ?? '')
  const ifVersion = deleteCondition(request)
  const { deleted } = await context.service.execute(
    cellId,
    { op: 'kv.delete', key, ifVersion },
    { permit, requestId },
  )
  return ok({ key, deleted })
})

export const listEntries = cellActionWithQuery(
  ['prefix', 'cursor', 'limit', 'reverse', 'values'],
  async ({ context, cellId, permit, requestId }, query) => {
    const options = definedOnly({
      prefix: query.text('prefix'),
      cursor: query.text('cursor'),
      limit: query.limit(context.limits.pageDefault, context.store.settings.limits.pageMax),
      reverse: query.flag('reverse'),
      values: query.flag('values'),
    })
    const list = { op: 'kv.list', options, answer: 'json' } as const
    return { status: 200, json: await context.service.execute(cellId, list, { permit, requestId }) }
  },
)

/** A route of `kv/ops`. Conditions of its entries are fields of its body. */
function kvOperation<B>(schema: z.ZodType<B>, run: Run<CellCall, B>) {
  return cellActionWith(schema, (call, body, exact) => {
    refuseConditions(call.request)
    return run(call, body, exact)
  })
}

export const incr = kvOperation(incrSchema, async ({ context, cellId, permit, requestId }, body, exact) =>
  ok(encodeIncr(await context.service.execute(cellId, decodeIncr(body, exact), { permit, requestId }))),
)

export const ttl = kvOperation(keysSchema, async ({ context, cellId, permit, requestId }, body) =>
  ok(
    await context.service.execute(
      cellId,
      { op: 'kv.ttl', keys: decodeKeys(body, context.store.settings.limits) },
      { permit, requestId },
    ),
  ),
)

export const expire = kvOperation(expireSchema, async ({ context, cellId, permit, requestId }, body) =>
  ok(
    encodeExpire(body.key, await context.service.execute(cellId, decodeExpire(body), { permit, requestId })),
  ),
)

export const mget = kvOperation(keysSchema, async ({ context, cellId, permit, requestId }, body) => {
  const keys = decodeKeys(body, context.store.settings.limits)
  const mget = { op: 'kv.mget', keys, answer: 'json' } as const
  return { status: 200, json: await context.service.execute(cellId, mget, { permit, requestId }) }
})

export const mset = cellActionOfBody(msetSchema, 'long', async (call, body) => {
  const { request, permit, requestId } = call
  refuseConditions(request)
  return { status: 200, json: await runBody('kv.mset', call, body, { permit, requestId }) }
})

export const deleteMany = kvOperation(keysSchema, async ({ context, cellId, permit, requestId }, body) => {
  const keys = decodeKeys(body, context.store.settings.limits)
  const { deleted } = await context.service.execute(
    cellId,
    { op: 'kv.deleteMany', keys },
    { permit, requestId },
  )
  return ok({ deleted })
})

export const getdel = kvOperation(keySchema, async ({ context, cellId, permit, requestId }, { key }) =>
  ok(encodeFound(await context.service.execute(cellId, { op: 'kv.getdel', key }, { permit, requestId }))),
)
