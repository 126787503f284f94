import * as z from 'zod'
import { count, nextCursor, time, ttlLeft, wideInteger } from './answer-fields.ts'
import { noted } from './schema-notes.ts'

/** The answers to KV operations. The encoders in documents.ts have their types. */

const key = z.string()
const version = noted(z.string(), {
  description: 'Changes with each write of the entry, and never comes back.',
})
const lifetime = { ttl_seconds: ttlLeft, expires_at: time.nullable() }

export const entryAnswer = noted(z.object({ key, value: z.string(), version, ...lifetime }), { id: 'Entry' })
export const putAnswer = noted(z.object({ key, created: z.boolean(), version, ...lifetime }), {
  id: 'PutResult',
})
export const putsAnswer = z.object({ count, entries: z.array(putAnswer) })
export const foundAnswer = noted(
  z.object({ entry: noted(entryAnswer.nullable(), { description: 'As it was; null if there was none.' }) }),
  { id: 'FoundEntry' },
)
export const incrAnswer = noted(z.object({ key, value: wideInteger, version, ...lifetime }), {
  id: 'IncrResult',
})
export const expireAnswer = noted(
  z.object({ key, updated: z.boolean(), version: version.nullable(), ttl_seconds: ttlLeft.nullable() }),
  {
    id: 'ExpireResult',
  },
)
export const deleteAnswer = noted(z.object({ key, deleted: z.boolean() }), { id: 'DeleteResult' })
export const ttlAnswer = noted(z.array(ttlLeft.nullable()), {
  description: 'In the order of the keys; null for a missing one.',
})
export const entriesAnswer = z.object({
  entries: noted(z.array(entryAnswer.nullable()), {
    description: 'In the order of the keys; null for a missing one.',
  }),
})
export const entryPageAnswer = z.object({
  entries: z.array(z.object({ key, version, ...lifetime, value: z.string().optional() })),
  next_cursor: nextCursor,
})
export const deletedCountAnswer = z.object({ deleted: count })

export type EntryDocument = z.infer<typeof entryAnswer>
export type PutDocument = z.infer<typeof putAnswer>
export type PutsDocument = z.infer<typeof putsAnswer>
export type FoundDocument = z.infer<typeof foundAnswer>
export type IncrDocument = z.infer<typeof incrAnswer>
export type ExpireDocument = z.infer<typeof expireAnswer>
export type EntryPageDocument = z.infer<typeof entryPageAnswer>
