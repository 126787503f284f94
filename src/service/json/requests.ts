import * as z from 'zod'
import { CellError } from '../../errors.ts'
import type { AnsweredAsJson, BodyBounds, CellOperation, UnreadKind, UnreadOperation } from '../operations.ts'
import { decodeOperation, operationShape } from './batch-body.ts'
import { parseJson } from './exact-json.ts'
import { integer, list, parseFields } from './fields.ts'
import { decodeMset, msetSchema } from './kv-body.ts'
import { noted } from './schema-notes.ts'
import { decodeStatement, sqlSchema } from './sql-body.ts'

/** What a body asks for, as the service takes it. */
export interface BodyRequest {
  operation: Extract<AnsweredAsJson, { op: UnreadKind }> & OperationBounds
  /** How long its statements may run, in milliseconds; undefined if the request names no bound. */
  timeoutMs: number | undefined
}

const timeout = noted(integer, {
  description:
    'How long the statements may run, in milliseconds: from 1 to http.statementMsMax, the default.',
})
const timeoutSchema = z.strictObject({ timeout_ms: timeout.optional() })
export const statementSchema = sqlSchema.extend(timeoutSchema.shape)
export const batchSchema = timeoutSchema.extend({ operations: list('operations', operationShape) })

/**
 * The body of a request, from JSON.
 *
 * @param exact whether integers are as they were sent
 * @throws `invalid_request`, `invalid_ttl`, `invalid_parameter`, `sql_too_long`; in a batch, with the operation's index
 */
export function decodeRequest(
  kind: UnreadKind,
  value: unknown,
  exact: boolean,
  bounds: BodyBounds,
): BodyRequest {
  if (kind === 'kv.mset') {
    const mset = decodeMset(parseFields(msetSchema, value), bounds)
    return { operation: { ...mset, answer: 'json' }, timeoutMs: undefined }
  }
  const context = { exact, limits: bounds }
  if (kind === 'sql') {
    const body = parseFields(statementSchema, value)
    const timeoutMs = checkTimeout(body.timeout_ms, bounds)
    const statement = decodeStatement(body, context)
    return { operation: { op: 'sql', ...statement, limits: bounds.result, answer: 'json' }, timeoutMs }
  }
  const body = parseFields(batchSchema, value)
  const timeoutMs = checkTimeout(body.timeout_ms, bounds)
  checkCount(body.operations.length, bounds.batchOperationsMax)
  const { result } = bounds
  const operations = body.operations.map((each, index) =>
    decodeOperation(each, { ...context, index, result }),
  )
  return { operation: { op: 'batch', operations, answer: 'json' }, timeoutMs }
}

/** What bounds an operation without a word of its request. */
type OperationBounds = Pick<CellOperation, 'growth' | 'readOnly'>

/** @throws `invalid_json`; and as {@link decodeRequest} */
export function readUnread({
  kind,
  body,
  bounds,
  growth,
  readOnly,
}: UnreadOperation & OperationBounds): BodyRequest {
  const { operation, timeoutMs } = decodeRequest(kind, parseJson(body), true, bounds)
  return { operation: { ...operation, growth, readOnly }, timeoutMs }
}

function checkTimeout(timeoutMs: number | undefined, { statementMsMax }: BodyBounds): number | undefined {
  if (timeoutMs === undefined || (timeoutMs >= 1 && timeoutMs <= statementMsMax)) return timeoutMs
  throw new CellError(
    'invalid_request',
    `timeout_ms is a whole number from 1 to ${statementMsMax} (http.statementMsMax).`,
    {
      field: 'timeout_ms',
      limit: statementMsMax,
    },
  )
}

function checkCount(count: number, max: number): void {
  if (count <= max) return
  throw new CellError(
    'invalid_request',
    `A batch takes at most ${max} operations (limits.batchOperationsMax).`,
    {
      field: 'operations',
      limit: max,
    },
  )
}
