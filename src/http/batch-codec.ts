import { z } from 'zod'
import type { ResultLimits } from '../base/limits.ts'
import { CellError } from '../errors.ts'
import type { BatchableOperation, OperationResults } from '../service/operations.ts'
import { parseFields, text } from './fields.ts'
import {
  decodeExpire,
  decodeIncr,
  decodePut,
  encodeExpire,
  encodeIncr,
  encodePut,
  expireSchema,
  incrSchema,
  keySchema,
  putSchema,
} from './kv-codec.ts'
import { decodeStatement, encodeSqlResult, type StatementContext, sqlSchema } from './sql-codec.ts'

const keyedPutSchema = putSchema.extend({ key: text })
const kindSchema = z.object({
  sql: z.unknown().optional(),
  kv: z
    .enum(['put', 'incr', 'expire', 'delete'], { error: 'must be "put", "incr", "expire" or "delete"' })
    .optional(),
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
  switch (kv) {
    case undefined: {
      const body = parseFields(sqlSchema, value, at)
      return { op: 'sql', ...decodeStatement(body, { exact, limits }, `${at}.`), limits: result }
    }
    case 'put': {
      const body = parseFields(keyedPutSchema, value, at)
      return decodePut(body.key, body)
    }
    case 'incr':
      return decodeIncr(parseFields(incrSchema, value, at), exact, `${at}.delta`)
    case 'expire':
      return decodeExpire(parseFields(expireSchema, value, at))
    case 'delete':
      return { op: 'kv.delete', key: parseFields(keySchema, value, at).key }
  }
}

/** The answer to one operation, the same as outside a batch. */
export function encodeResult(
  operation: BatchableOperation,
  result: OperationResults[BatchableOperation['op']],
): unknown {
  switch (operation.op) {
    case 'sql':
      return encodeSqlResult(result as OperationResults['sql'])
    case 'kv.put':
      return encodePut(operation.key, result as OperationResults['kv.put'])
    case 'kv.incr':
      return encodeIncr(operation.key, result as OperationResults['kv.incr'])
    case 'kv.expire':
      return encodeExpire(operation.key, result as OperationResults['kv.expire'])
    case 'kv.delete':
      return { key: operation.key, ...(result as OperationResults['kv.delete']) }
    default:
      return result
  }
}

/** The field's place in the body that the caller sent, for an error that names only its operation. */
export function withBatchField(error: unknown): unknown {
  if (!(error instanceof CellError)) return error
  const { index, field } = error.details
  if (index === undefined || field === undefined || field.startsWith('operations[')) return error
  return new CellError(error.code, error.message, {
    ...error.details,
    field: `operations[${index}].${field}`,
    cause: error,
  })
}

function withIndex(error: unknown, index: number): unknown {
  return error instanceof CellError
    ? new CellError(error.code, error.message, { ...error.details, index, cause: error })
    : error
}
