import * as z from 'zod'
import type { ResultLimits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import type { BatchableOperation } from '../operations.ts'
import { parseFields, text } from './fields.ts'
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
import { decodeStatement, type StatementContext, sqlSchema } from './sql-body.ts'

/** The fields of each kind of operation; those of `kindSchema` have been checked. */
const kind = { kv: text }
const keyedPutSchema = conditionalPutSchema.extend(kind)
const keyedIncrSchema = incrSchema.extend(kind)
const keyedExpireSchema = expireSchema.extend(kind)
const keyedDeleteSchema = deleteSchema.extend(kind)
const keyedGetdelSchema = keySchema.extend(kind)
/** Drops the other fields: which are known depends on the kind. */
const kindSchema = z.object({
  sql: z.unknown().optional(),
  kv: z
    .enum(['put', 'incr', 'expire', 'delete', 'getdel'], {
      error: 'must be "put", "incr", "expire", "delete" or "getdel"',
    })
    .optional(),
})

/** One operation of a batch, as {@link decodeOperation} reads it. */
export function operationShape(): z.ZodType {
  const keyed = (kv: string, schema: z.ZodObject) => schema.extend({ kv: z.literal(kv) })
  return z.union([
    sqlSchema,
    keyed('put', keyedPutSchema),
    keyed('incr', keyedIncrSchema),
    keyed('expire', keyedExpireSchema),
    keyed('delete', keyedDeleteSchema),
    keyed('getdel', keyedGetdelSchema),
  ])
}

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
  switch (kv) {
    case undefined: {
      const body = parseFields(sqlSchema, value, at)
      return { op: 'sql', ...decodeStatement(body, { exact, limits }, `${at}.`), limits: result }
    }
    case 'put': {
      const body = parseFields(keyedPutSchema, value, at)
      return decodePut(body.key, body, body.if_version)
    }
    case 'incr':
      return decodeIncr(parseFields(keyedIncrSchema, value, at), exact, `${at}.delta`)
    case 'expire':
      return decodeExpire(parseFields(keyedExpireSchema, value, at))
    case 'delete': {
      const { key, if_version } = parseFields(keyedDeleteSchema, value, at)
      return { op: 'kv.delete', key, ifVersion: if_version }
    }
    case 'getdel':
      return { op: 'kv.getdel', key: parseFields(keyedGetdelSchema, value, at).key }
  }
}

function withIndex(error: unknown, index: number): unknown {
  return error instanceof CellError
    ? new CellError(error.code, error.message, { ...error.details, index, cause: error })
    : error
}
