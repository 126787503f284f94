import * as z from 'zod'
import { time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'

/** The answers of the routes for API keys. The encoders have their types. */

const shown = {
  id: uuid,
  name: z.string().nullable(),
  hint: noted(z.string(), { description: 'The first characters of the key.' }),
  created_at: time,
  access: noted(z.enum(['read', 'write', 'owner']), {
    description: 'What the key may do: read; also write; also make and change accounts.',
  }),
  cell_ids: noted(z.array(uuid).nullable(), {
    description: 'The only cells that the key is for; null: all of its account.',
  }),
  surface: noted(z.enum(['kv', 'all']), { description: 'kv: the key is for key-value entries only.' }),
  expires_at: noted(time.nullable(), {
    description: 'From when on the key is refused, be it that it was rotated; null: never.',
  }),
}

export const createdKeyAnswer = noted(
  z.object({ ...shown, key: noted(z.string(), { description: 'Only in this answer.' }) }),
  { id: 'CreatedApiKey' },
)
export const rotatedKeyAnswer = noted(
  createdKeyAnswer.extend({
    replaces: noted(z.object({ id: uuid, expires_at: time }), { description: 'The old key.' }),
  }),
  { id: 'RotatedApiKey' },
)
export const keyAnswer = noted(z.object({ ...shown, last_used_at: time.nullable() }), { id: 'ApiKey' })
export const keysAnswer = z.array(keyAnswer)
export const revokedKeyAnswer = z.object({ id: uuid, revoked: z.literal(true), revoked_at: time })

export type ApiKeyDocument = z.infer<typeof keyAnswer>
export type CreatedApiKeyDocument = z.infer<typeof createdKeyAnswer>
export type RotatedKeyDocument = z.infer<typeof rotatedKeyAnswer>
export type RevokedKeyDocument = z.infer<typeof revokedKeyAnswer>
