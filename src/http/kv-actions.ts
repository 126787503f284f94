import { CellError } from '../errors.ts'
import {
  encodeEntry,
  encodeExpire,
  encodeFound,
  encodeIncr,
  encodePut,
  encodePuts,
} from '../service/json/documents.ts'
import {
  decodeExpire,
  decodeIncr,
  decodeKeys,
  decodeMset,
  decodePut,
  expireSchema,
  incrSchema,
  keySchema,
  keysSchema,
  msetSchema,
  putSchema,
} from '../service/json/kv-body.ts'
import { cellAction, cellActionWith, cellActionWithQuery, decodeKey, ok } from './action.ts'
import { NOT_MODIFIED } from './http-message.ts'
import { changeCondition, deleteCondition, etagOf, isNotModified } from './preconditions.ts'

export const putEntry = cellActionWith(putSchema, async (call, body) => {
  const { context, request, cellId, permit, segments } = call
  const put = decodePut(decodeKey(segments[1] ?? ''), body, changeCondition(request))
  const result = await context.service.execute(cellId, put, { permit })
  return { ...ok(encodePut(result)), headers: { ETag: etagOf(result.version) } }
})

export const getEntry = cellAction(async ({ context, request, cellId, permit, segments }) => {
  const entry = await context.service.execute(
    cellId,
    { op: 'kv.get', key: decodeKey(segments[1] ?? '') },
    { permit },
  )
  if (entry === undefined) throw new CellError('key_not_found', 'No entry has this key, or it has expired.')
  const headers = { ETag: etagOf(entry.version) }
  if (isNotModified(request, entry.version)) return { status: NOT_MODIFIED, json: '', headers }
  return { ...ok(encodeEntry(entry)), headers }
})

export const deleteEntry = cellAction(async ({ context, request, cellId, permit, segments }) => {
  const key = decodeKey(segments[1] ?? '')
  const ifVersion = deleteCondition(request)
  const { deleted } = await context.service.execute(cellId, { op: 'kv.delete', key, ifVersion }, { permit })
  return ok({ key, deleted })
})

export const listEntries = cellActionWithQuery(
  ['prefix', 'cursor', 'limit', 'reverse', 'values'],
  async ({ context, cellId, permit }, query) => {
    const options = {
      prefix: query.text('prefix'),
      cursor: query.text('cursor'),
      limit: query.limit(context.limits.pageDefault, context.store.settings.limits.pageMax),
      reverse: query.flag('reverse'),
      values: query.flag('values'),
    }
    const list = { op: 'kv.list', options, answer: 'json' } as const
    return { status: 200, json: await context.service.execute(cellId, list, { permit }) }
  },
)

export const incr = cellActionWith(incrSchema, async ({ context, cellId, permit }, body, exact) =>
  ok(encodeIncr(await context.service.execute(cellId, decodeIncr(body, exact), { permit }))),
)

export const ttl = cellActionWith(keysSchema, async ({ context, cellId, permit }, body) =>
  ok(
    await context.service.execute(
      cellId,
      { op: 'kv.ttl', keys: decodeKeys(body, context.store.settings.limits) },
      { permit },
    ),
  ),
)

export const expire = cellActionWith(expireSchema, async ({ context, cellId, permit }, body) =>
  ok(encodeExpire(body.key, await context.service.execute(cellId, decodeExpire(body), { permit }))),
)

export const mget = cellActionWith(keysSchema, async ({ context, cellId, permit }, body) => {
  const keys = decodeKeys(body, context.store.settings.limits)
  const mget = { op: 'kv.mget', keys, answer: 'json' } as const
  return { status: 200, json: await context.service.execute(cellId, mget, { permit }) }
})

export const mset = cellActionWith(msetSchema, async ({ context, cellId, permit }, body) => {
  const mset = decodeMset(body, context.store.settings.limits)
  return ok(encodePuts(await context.service.execute(cellId, mset, { permit })))
})

export const deleteMany = cellActionWith(keysSchema, async ({ context, cellId, permit }, body) => {
  const keys = decodeKeys(body, context.store.settings.limits)
  const { deleted } = await context.service.execute(cellId, { op: 'kv.deleteMany', keys }, { permit })
  return ok({ deleted })
})

export const getdel = cellActionWith(keySchema, async ({ context, cellId, permit }, { key }) =>
  ok(encodeFound(await context.service.execute(cellId, { op: 'kv.getdel', key }, { permit }))),
)
