import * as z from 'zod'
import type { ResultLimits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import type { BatchableOperation } from '../operations.ts'
import { parseFields, text } from './fields.ts'
import { deleteAnswer, expireAnswer, foundAnswer, incrAnswer, putAnswer } from './kv-answers.ts'
import {
  conditionalPutSchema,
  decodeExpire,
  decodeIncr,
  decodePut,
  deleteSchema,
  expireSchema,
  incrSchema,
  keySchema,
} from './kv-body.ts'
import { noted } from './schema-notes.ts'
import { sqlAnswer } from './sql-answers.ts'
import { decodeStatement, type StatementContext, sqlSchema } from './sql-body.ts'

/** A kind of KV operation in a batch: its fields, how they are read, and what answers it. */
interface Kind<Schema extends z.ZodObject = z.ZodObject> {
  schema: Schema
  answer: z.ZodType
  decode(body: z.infer<Schema>, exact: boolean, at: string): BatchableOperation
}

const KINDS: Readonly<Record<string, Kind>> = {
  put: kind(conditionalPutSchema, putAnswer, (body) => decodePut(body.key, body, body.if_version)),
  incr: kind(incrSchema, incrAnswer, (body, exact, at) => decodeIncr(body, exact, `${at}.delta`)),
  expire: kind(expireSchema, expireAnswer, decodeExpire),
  delete: kind(deleteSchema, deleteAnswer, ({ key, if_version }) => ({
    op: 'kv.delete',
    key,
    ifVersion: if_version,
  })),
  getdel: kind(keySchema, foundAnswer, ({ key }) => ({ op: 'kv.getdel', key })),
}

/** So that a kind's reader has the type of its fields, and the table one type. */
function kind<S extends z.ZodObject>(schema: S, answer: z.ZodType, decode: Kind<S>['decode']): Kind {
  return { schema: schema.extend({ kv: text }), answer, decode: decode as Kind['decode'] }
}

const NAMES = Object.keys(KINDS)
const QUOTED = NAMES.map((name) => `"${name}"`)
/** Drops the other fields: which are known depends on the kind. */
const kindSchema = z.object({
  sql: z.unknown().optional(),
  kv: z.enum(NAMES, { error: `must be ${QUOTED.slice(0, -1).join(', ')} or ${QUOTED.at(-1)}` }).optional(),
})

/** One operation of a batch, as {@link decodeOperation} reads it. */
export function operationShape(): z.ZodType {
  const kinds = Object.entries(KINDS).map(([kv, { schema }]) => schema.extend({ kv: z.literal(kv) }))
  return z.union([sqlSchema, ...kinds])
}

export const batchAnswer = z.object({
  results: noted(z.array(z.union([sqlAnswer, ...Object.values(KINDS).map(({ answer }) => answer)])), {
    description: 'For each operation what it would answer alone.',
  }),
})

/** What decoding an operation of a batch needs besides the operation. */
export interface DecodeOptions extends StatementContext {
  index: number
  /** Of each statement's result. */
  result: ResultLimits
}

/**
 * One operation of a batch, from JSON.
 *
 * @throws `invalid_request`, `invalid_ttl`, `invalid_parameter`; with the operation's index
 */
export function decodeOperation(value: unknown, options: DecodeOptions): BatchableOperation {
  try {
    return decode(value, `operations[${options.index}]`, options)
  } catch (error) {
    throw withIndex(error, options.index)
  }
}

function decode(value: unknown, at: string, { exact, limits, result }: DecodeOptions): BatchableOperation {
  const { kv, sql } = parseFields(kindSchema, value, at)
  if ((kv === undefined) === (sql === undefined)) {
    throw new CellError('invalid_request', `${at} must have either sql or kv.`, { field: at })
  }
  const found = kv === undefined ? undefined : KINDS[kv]
  if (found !== undefined) return found.decode(parseFields(found.schema, value, at), exact, at)
  const body = parseFields(sqlSchema, value, at)
  return { op: 'sql', ...decodeStatement(body, { exact, limits }, `${at}.`), limits: result }
}

function withIndex(error: unknown, index: number): unknown {
  return error instanceof CellError
    ? new CellError(error.code, error.message, { ...error.details, index, cause: error })
    : error
}
