import * as z from 'zod'
import { list, text } from '../json/fields.ts'
import { checkedByHand, noted } from '../json/schema-notes.ts'

/** The bodies of Hrana, as its specification has them. They are read by hand: a batch can hold thousands of steps. */

const value = noted(
  z.union([
    z.object({ type: z.literal('null') }),
    z.object({ type: z.literal('integer'), value: z.string() }),
    z.object({ type: z.literal('float'), value: z.number() }),
    z.object({ type: z.literal('text'), value: z.string() }),
    z.object({ type: z.literal('blob'), base64: z.string() }),
  ]),
  { id: 'HranaValue', description: 'An integer is a string of its digits. A float is bound as REAL.' },
)

const sqlOrId = { sql: z.string().optional(), sql_id: z.int().optional() }

const statement = noted(
  z.object({
    ...sqlOrId,
    args: z.array(value).optional(),
    named_args: z.array(z.object({ name: z.string(), value })).optional(),
    want_rows: z.boolean().optional(),
  }),
  { id: 'HranaStatement' },
)

const condition = noted(
  z.object({
    type: z.enum(['ok', 'error', 'not', 'and', 'or', 'is_autocommit']),
    step: z.int().optional(),
    cond: z.unknown().optional(),
    conds: z.array(z.unknown()).optional(),
  }),
  { id: 'HranaCondition', description: 'cond and conds hold further conditions.' },
)

const batch = noted(
  z.object({ steps: z.array(z.object({ condition: condition.optional(), stmt: statement })) }),
  {
    id: 'HranaBatch',
  },
)

const request = z.union([
  z.object({ type: z.literal('execute'), stmt: statement }),
  z.object({ type: z.literal('batch'), batch }),
  z.object({ type: z.enum(['sequence', 'describe']), ...sqlOrId }),
  z.object({ type: z.literal('store_sql'), sql_id: z.int(), sql: z.string() }),
  z.object({ type: z.literal('close_sql'), sql_id: z.int() }),
  z.object({ type: z.enum(['get_autocommit', 'close']) }),
])

const baton = noted(text, { description: 'That of the answer before, of the same stream.' })
  .nullable()
  .optional()

export const pipelineBody = z.looseObject({ baton, requests: list('requests', () => request) })

const anyBatch = z.custom<object>(
  (value) => typeof value === 'object' && value !== null,
  'must be an object with a list of steps',
)

export const cursorBody = z.looseObject({ baton, batch: checkedByHand(anyBatch, () => batch) })

const error = noted(z.object({ message: z.string(), code: z.string() }), { id: 'HranaError' })
const column = z.object({ name: z.string(), decltype: z.string().nullable() })
const result = noted(
  z.object({
    cols: z.array(column),
    rows: z.array(z.array(value)),
    affected_row_count: z.int(),
    last_insert_rowid: z.string().nullable(),
  }),
  { id: 'HranaResult' },
)

const response = z.union([
  z.object({ type: z.literal('execute'), result }),
  z.object({
    type: z.literal('batch'),
    result: z.object({ step_results: z.array(result.nullable()), step_errors: z.array(error.nullable()) }),
  }),
  z.object({
    type: z.literal('describe'),
    result: z.object({
      params: z.array(z.object({ name: z.string().nullable() })),
      cols: z.array(column),
      is_explain: z.boolean(),
      is_readonly: z.boolean(),
    }),
  }),
  z.object({ type: z.literal('get_autocommit'), is_autocommit: z.boolean() }),
  z.object({ type: z.enum(['sequence', 'store_sql', 'close_sql', 'close']) }),
])

export const pipelineAnswer = z.object({
  baton: z.string().nullable(),
  base_url: z.null(),
  results: z.array(
    z.union([z.object({ type: z.literal('ok'), response }), z.object({ type: z.literal('error'), error })]),
  ),
})
