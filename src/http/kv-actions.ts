import { CellError } from '../errors.ts'
import { encodeEntry, encodeExpire, encodeIncr, encodePut } from '../service/json/documents.ts'
import {
  decodeExpire,
  decodeIncr,
  decodeKeys,
  decodeMset,
  decodePut,
  expireSchema,
  incrSchema,
  keysSchema,
  msetSchema,
  putSchema,
} from '../service/json/kv-body.ts'
import { cellAction, cellActionWith, cellActionWithQuery, decodeKey, ok } from './action.ts'

export const putEntry = cellActionWith(putSchema, async ({ context, cellId, permit, segments }, body) => {
  const key = decodeKey(segments[1] ?? '')
  return ok(encodePut(key, await context.service.execute(cellId, decodePut(key, body), { permit })))
})

export const getEntry = cellAction(async ({ context, cellId, permit, segments }) => {
  const entry = await context.service.execute(
    cellId,
    { op: 'kv.get', key: decodeKey(segments[1] ?? '') },
    { permit },
  )
  if (entry === undefined) throw new CellError('key_not_found', 'No entry has this key, or it has expired.')
  return ok(encodeEntry(entry))
})

export const deleteEntry = cellAction(async ({ context, cellId, permit, segments }) => {
  const key = decodeKey(segments[1] ?? '')
  const { deleted } = await context.service.execute(cellId, { op: 'kv.delete', key }, { permit })
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
  ok(encodeIncr(body.key, await context.service.execute(cellId, decodeIncr(body, exact), { permit }))),
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
  const { count } = await context.service.execute(cellId, decodeMset(body, context.store.settings.limits), {
    permit,
  })
  return ok({ count })
})

export const deleteMany = cellActionWith(keysSchema, async ({ context, cellId, permit }, body) => {
  const keys = decodeKeys(body, context.store.settings.limits)
  const { deleted } = await context.service.execute(cellId, { op: 'kv.deleteMany', keys }, { permit })
  return ok({ deleted })
})
