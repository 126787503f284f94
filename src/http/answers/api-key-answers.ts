import { z } from 'zod'
import { time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'

/** The answers of the routes for API keys. The encoders have their types. */

const shown = {
  id: uuid,
  name: z.string().nullable(),
  hint: noted(z.string(), { description: 'The first characters of the key.' }),
  created_at: time,
}

export const createdKeyAnswer = noted(
  z.object({ ...shown, key: noted(z.string(), { description: 'Only in this answer.' }) }),
  { id: 'CreatedApiKey' },
)
export const keyAnswer = noted(z.object({ ...shown, last_used_at: time.nullable() }), { id: 'ApiKey' })
export const keysAnswer = z.array(keyAnswer)
export const revokedKeyAnswer = z.object({ id: uuid, revoked: z.literal(true), revoked_at: time })

export type ApiKeyDocument = z.infer<typeof keyAnswer>
export type CreatedApiKeyDocument = z.infer<typeof createdKeyAnswer>
export type RevokedKeyDocument = z.infer<typeof revokedKeyAnswer>
