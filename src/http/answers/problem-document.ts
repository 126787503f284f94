import * as z from 'zod'
import { noted } from '../../service/json/schema-notes.ts'

/** What answers a refused or failed request: an RFC 9457 document. The document of an error has its type. */
export const problemAnswer = noted(
  z.object({
    type: z.literal('about:blank'),
    title: z.string(),
    status: z.int(),
    detail: noted(z.string(), { description: 'For people; may change.' }),
    code: noted(z.string(), { description: 'For programs.' }),
    request_id: z.string(),
    field: noted(z.string().optional(), { description: 'The input that was wrong.' }),
    limit: noted(z.number().optional(), { description: 'The limit that was reached.' }),
    usage: noted(z.number().optional(), { description: 'What the account has of what the limit bounds.' }),
    sqlite_code: z.string().optional(),
    reason: noted(z.enum(['io_error', 'damaged']).optional(), {
      description: 'Why the cell is quarantined.',
    }),
    member: noted(z.string().optional(), { description: 'The damaged part of a backup.' }),
    version: noted(z.string().optional(), { description: 'The version that the damaged part belongs to.' }),
    allowed: noted(z.array(z.string()).optional(), { description: 'The methods that the path takes.' }),
    index: noted(z.int().min(0).optional(), { description: 'The operation of a batch, from 0.' }),
  }),
  { id: 'Problem' },
)

export type ProblemDocument = z.infer<typeof problemAnswer>
