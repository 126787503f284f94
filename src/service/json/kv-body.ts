import * as z from 'zod'
import type { Limits } from '../../base/options/limits.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import type { BatchableOperation } from '../operations.ts'
import { flag, list, parseList, text, ttlSeconds, versionOrNull } from './fields.ts'
import { checkedByHand, noted } from './schema-notes.ts'
import { decodeInteger, typedInteger } from './sql-body.ts'

/** Decoded by hand: it can have 64 bits. */
const delta = noted(
  checkedByHand(z.unknown(), () => z.union([z.int(), typedInteger])),
  { description: 'An integer of 64 bits; 1 by default.' },
)
/** Where no header can hold the condition. */
const ifVersion = noted(versionOrNull, {
  description: 'Only if the entry has this version; null: only if there is none; "*": only if there is one.',
})

export const putSchema = z.strictObject({
  value: text,
  ttl_seconds: ttlSeconds.optional(),
  keep_ttl: noted(flag, { description: 'Keeps the time to live that the entry has.' }).optional(),
})
export const conditionalPutSchema = putSchema.extend({ key: text, if_version: ifVersion.optional() })
export const deleteSchema = z.strictObject({ key: text, if_version: text.optional() })
export const incrSchema = z.strictObject({
  key: text,
  delta: delta.optional(),
  ttl_seconds: ttlSeconds.optional(),
})
export const expireSchema = z.strictObject({ key: text, ttl_seconds: ttlSeconds.nullish() })
export const keySchema = z.strictObject({ key: text })
export const keysSchema = z.strictObject({ keys: list('keys', () => text) })
export const msetSchema = z.strictObject({ entries: list('entries', () => msetEntrySchema) })
const msetEntrySchema = z.strictObject(conditionalPutSchema.shape, { error: 'must be a JSON object' })

type Operation<Name extends BatchableOperation['op']> = Extract<BatchableOperation, { op: Name }>

export function decodePut(
  key: string,
  body: z.infer<typeof putSchema>,
  ifVersion: string | null | undefined,
): Operation<'kv.put'> {
  const { value, ttl_seconds, keep_ttl } = body
  return { op: 'kv.put', key, value, ttlSeconds: ttl_seconds, keepTtl: keep_ttl, ifVersion }
}

/** @throws `invalid_request` */
export function decodeIncr(
  body: z.infer<typeof incrSchema>,
  exact: boolean,
  at = 'delta',
): Operation<'kv.incr'> {
  const delta = body.delta === undefined ? undefined : decodeInteger(body.delta, exact, at)
  return { op: 'kv.incr', key: body.key, delta, ttlSeconds: body.ttl_seconds }
}

export function decodeExpire({ key, ttl_seconds }: z.infer<typeof expireSchema>): Operation<'kv.expire'> {
  return { op: 'kv.expire', key, ttlSeconds: ttl_seconds ?? null }
}

/** @throws `invalid_request` */
export function decodeKeys({ keys }: z.infer<typeof keysSchema>, limits: Limits): string[] {
  return parseList(text, keys, 'keys', limits)
}

/** @throws `invalid_request`, `invalid_ttl` */
export function decodeMset(
  { entries }: z.infer<typeof msetSchema>,
  limits: Pick<Limits, 'kvKeysMax'>,
): Operation<'kv.mset'> {
  const parsed = parseList(msetEntrySchema, entries, 'entries', limits)
  return {
    op: 'kv.mset',
    entries: parsed.map(({ key, value, ttl_seconds, keep_ttl, if_version }) =>
      definedOnly({ key, value, ttlSeconds: ttl_seconds, keepTtl: keep_ttl, ifVersion: if_version }),
    ),
  }
}
