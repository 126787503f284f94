import * as z from 'zod'
import { count, duration, wideInteger } from './answer-fields.ts'
import { noted } from './schema-notes.ts'

/** The answer to a statement. The encoder in documents.ts has its type. */

const value = noted(
  z.union([z.string(), z.number(), z.null(), z.object({ type: z.literal('blob'), base64: z.string() })]),
  {
    id: 'SqlValue',
    description:
      'An integer beyond ±(2^53−1) is a string of its digits, and an infinite real is "Infinity" or "-Infinity".',
  },
)

export const sqlAnswer = noted(
  z.object({
    columns: z.array(z.string()),
    rows: noted(z.union([z.array(z.record(z.string(), value)), z.array(z.array(value))]), {
      description: 'Objects, or arrays if row_mode is "array".',
    }),
    row_count: count,
    changes: count,
    last_insert_rowid: wideInteger.nullable(),
    duration_ms: duration,
  }),
  { id: 'SqlResult' },
)

export type SqlDocument = z.infer<typeof sqlAnswer>
