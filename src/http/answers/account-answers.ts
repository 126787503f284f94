import * as z from 'zod'
import { nextCursor, time, uuid } from '../../service/json/answer-fields.ts'
import { noted } from '../../service/json/schema-notes.ts'

/** The answers of the routes for accounts. The encoders have their types. */

const quota = noted(z.int().min(1).nullable(), { description: 'Null: the quota of the store holds.' })

export const accountAnswer = noted(
  z.object({
    id: uuid,
    name: z.string().nullable(),
    created_at: time,
    suspended_at: noted(time.nullable(), {
      description: 'Since when every request with its keys is refused; null if it is not suspended.',
    }),
    quotas: z.object({
      cells_max: quota,
      api_keys_max: quota,
      bytes_max: quota,
      requests_per_second: quota,
    }),
  }),
  { id: 'Account' },
)
export const accountPageAnswer = z.object({ accounts: z.array(accountAnswer), next_cursor: nextCursor })

export type AccountDocument = z.infer<typeof accountAnswer>
export type AccountPageDocument = z.infer<typeof accountPageAnswer>
