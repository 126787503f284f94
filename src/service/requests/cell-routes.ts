import * as z from 'zod'
import type { Limits } from '../../base/options/limits.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import { cursorBody, pipelineBody } from '../hrana/hrana-bodies.ts'
import { readHrana } from '../hrana/read-request.ts'
import { decodeOperation, operationShape } from '../json/batch-body.ts'
import { documentOf, encodeEntry, encodePut } from '../json/documents.ts'
import { parseJson } from '../json/exact-json.ts'
import { integer, list, parseFields } from '../json/fields.ts'
import {
  decodeExpire,
  decodeIncr,
  decodeKeys,
  decodeMset,
  decodePut,
  expireSchema,
  incrSchema,
  keySchema,
  keysSchema,
  msetSchema,
  putSchema,
} from '../json/kv-body.ts'
import { noted } from '../json/schema-notes.ts'
import { decodeStatement, sqlSchema } from '../json/sql-body.ts'
import {
  CellAnswer,
  type CellRequest,
  type CellRoute,
  type HoldOperation,
  type OperationResults,
  type PlainOperation,
  type RequestBounds,
} from '../operations.ts'
import type { WorkOperation } from '../work-operation.ts'
import { changeCondition, deleteCondition, etagOf, isNotModified, refuseConditions } from './conditions.ts'
import { Query } from './query.ts'

/**
 * The routes of a cell that whoever has it open answers, in the time of its account: what each reads of a request, and how its
 * answer is written. The node passes a request on as it came.
 */

/** What bounds requests: those of HTTP, and those of the store. */
export interface ReadBounds extends RequestBounds {
  readonly limits: Limits
}

/** What a request asks for. */
export interface ReadRequest {
  operation: Exclude<PlainOperation, HoldOperation> | WorkOperation
  /** Milliseconds that its statements may run; undefined if it names no bound. */
  statementMs?: number | undefined
  /** @throws what the request is answered with instead */
  answer(result: unknown): CellAnswer
}

interface Rule<B> {
  /** What the body must be; undefined for a route without one. */
  readonly body?: z.ZodType<B>
  /** The parameters that it takes in the query. */
  readonly query?: readonly string[]
  /** It judges `If-Match` or `If-None-Match`. */
  readonly isConditional?: true
  read(request: CellRequest, body: B, bounds: ReadBounds): Read
}

type Read = Omit<ReadRequest, 'answer'> & { answer?: ReadRequest['answer'] }

const PAGE_QUERY = ['prefix', 'cursor', 'limit', 'reverse', 'values'] as const

const timeout = noted(integer, {
  description:
    'How long the statements may run, in milliseconds: from 1 to http.statementMsMax, the default.',
})
const timeoutSchema = z.strictObject({ timeout_ms: timeout.optional() })
const statementSchema = sqlSchema.extend(timeoutSchema.shape)
const batchSchema = timeoutSchema.extend({ operations: list('operations', operationShape) })

const RULES = {
  sql: rule({
    body: statementSchema,
    read: (request, body, { limits, result, statementMsMax }) => ({
      statementMs: checkTimeout(body.timeout_ms, statementMsMax),
      operation: { op: 'sql', ...decodeStatement(body, { exact: isExact(request), limits }), limits: result },
    }),
  }),
  batch: rule({
    body: batchSchema,
    read: (request, body, { limits, result, statementMsMax }) => {
      const statementMs = checkTimeout(body.timeout_ms, statementMsMax)
      checkCount(body.operations.length, limits.batchOperationsMax)
      const context = { exact: isExact(request), limits, result }
      const operations = body.operations.map((each, index) => decodeOperation(each, { ...context, index }))
      return { statementMs, operation: { op: 'batch', operations } }
    },
  }),
  'hrana.pipeline': rule({
    body: pipelineBody,
    read: (request, body, bounds) => hrana('pipeline', request, body, bounds),
  }),
  'hrana.cursor': rule({
    body: cursorBody,
    read: (request, body, bounds) => hrana('cursor', request, body, bounds),
  }),
  'kv.put': rule({
    body: putSchema,
    isConditional: true,
    read: (request, body) => ({
      operation: decodePut(keyOf(request), body, changeCondition(request)),
      answer: (result) => {
        const put = result as OperationResults['kv.put']
        return jsonOf(encodePut(put), etagOf(put.version))
      },
    }),
  }),
  'kv.get': rule({
    isConditional: true,
    read: (request) => ({
      operation: { op: 'kv.get', key: keyOf(request) },
      answer: (result) => {
        const entry = result as OperationResults['kv.get']
        if (entry === undefined)
          throw new CellError('key_not_found', 'No entry has this key, or it has expired.')
        if (isNotModified(request, entry.version)) return new CellAnswer(304, '', etagOf(entry.version))
        return jsonOf(encodeEntry(entry), etagOf(entry.version))
      },
    }),
  }),
  'kv.delete': rule({
    // A condition in its body would be one that nobody judges.
    body: z.strictObject({}),
    isConditional: true,
    read: (request) => ({
      operation: { op: 'kv.delete', key: keyOf(request), ifVersion: deleteCondition(request) },
    }),
  }),
  'kv.list': rule({
    query: PAGE_QUERY,
    isConditional: true,
    read: ({ query = '' }, _, { pageDefault, limits }) => {
      const asked = new Query(query, PAGE_QUERY)
      const options = definedOnly({
        prefix: asked.text('prefix'),
        cursor: asked.text('cursor'),
        limit: asked.limit(pageDefault, limits.pageMax),
        reverse: asked.flag('reverse'),
        values: asked.flag('values'),
      })
      return { operation: { op: 'kv.list', options } }
    },
  }),
  'kv.incr': rule({
    body: incrSchema,
    read: (request, body) => ({ operation: decodeIncr(body, isExact(request)) }),
  }),
  'kv.ttl': rule({
    body: keysSchema,
    read: (_, body, { limits }) => ({ operation: { op: 'kv.ttl', keys: decodeKeys(body, limits) } }),
  }),
  'kv.expire': rule({
    body: expireSchema,
    read: (_, body) => ({ operation: decodeExpire(body) }),
  }),
  'kv.mget': rule({
    body: keysSchema,
    read: (_, body, { limits }) => ({ operation: { op: 'kv.mget', keys: decodeKeys(body, limits) } }),
  }),
  'kv.mset': rule({
    body: msetSchema,
    read: (_, body, { limits }) => ({ operation: decodeMset(body, limits) }),
  }),
  'kv.deleteMany': rule({
    body: keysSchema,
    read: (_, body, { limits }) => ({ operation: { op: 'kv.deleteMany', keys: decodeKeys(body, limits) } }),
  }),
  'kv.getdel': rule({
    body: keySchema,
    read: (_, { key }) => ({ operation: { op: 'kv.getdel', key } }),
  }),
}

/** What the node checks of a request before it passes it on, by route, and the document of the interface describes. */
export const CELL_ROUTES: Readonly<Record<CellRoute, Pick<Rule<unknown>, 'body' | 'query'>>> = RULES

/**
 * Reads a request.
 *
 * @throws `invalid_json`, `invalid_request`, `invalid_key`, `invalid_ttl`, `invalid_parameter`, `sql_too_long`; in a batch, with
 * the operation's index
 */
export function readRequest(request: CellRequest, bounds: ReadBounds): ReadRequest {
  const { body, isConditional, read }: Rule<unknown> = RULES[request.route]
  const value = body === undefined ? undefined : bodyOf(request)
  if (isConditional === undefined) refuseConditions(request)
  const asked = read(request, body === undefined ? undefined : parseFields(body, value), bounds)
  const { operation, statementMs, answer = answerTo(operation) } = asked
  return { operation, statementMs, answer }
}

/** So that a rule's reader has the type of its body, and the table of rules one type. */
function rule<B>(rule: Rule<B>): Rule<unknown> {
  return rule as Rule<unknown>
}

/** An empty body counts as `{}`. */
function bodyOf({ body, parsed }: CellRequest): unknown {
  if (parsed !== undefined) return parsed.value
  return body === undefined || body.length === 0 ? {} : parseJson(body)
}

/** Whether integers are as they were sent. */
function isExact({ parsed }: CellRequest): boolean {
  return parsed === undefined
}

/** Work has made its answer itself. */
function answerTo(operation: ReadRequest['operation']): ReadRequest['answer'] {
  if (operation.op === 'work') return (result) => result as CellAnswer
  return (result) => jsonOf(documentOf(operation, result))
}

function hrana(
  kind: 'pipeline' | 'cursor',
  request: CellRequest,
  body: unknown,
  { limits: { paramsMax }, result }: ReadBounds,
): Read {
  return { operation: readHrana(kind, request, body, { paramsMax, result }) }
}

function keyOf({ key = '' }: CellRequest): string {
  return decodeKey(key)
}

function jsonOf(document: unknown, etag?: string): CellAnswer {
  return new CellAnswer(200, JSON.stringify(document), etag)
}

function checkTimeout(timeoutMs: number | undefined, max: number): number | undefined {
  if (timeoutMs === undefined || (timeoutMs >= 1 && timeoutMs <= max)) return timeoutMs
  const message = `timeout_ms is a whole number from 1 to ${max} (http.statementMsMax).`
  throw new CellError('invalid_request', message, { field: 'timeout_ms', limit: max })
}

function checkCount(count: number, max: number): void {
  if (count <= max) return
  const message = `A batch takes at most ${max} operations (limits.batchOperationsMax).`
  throw new CellError('invalid_request', message, { field: 'operations', limit: max })
}

/**
 * A KV key from its path segment, decoded once. URL parsers of clients remove "." and ".." from a path, so such a key
 * never arrives as it was meant: it is refused, so that it is not taken for another one.
 *
 * @throws `invalid_key`
 */
export function decodeKey(segment: string): string {
  if (!/^[\x21-\x7e]*$/.test(segment)) throw badKey('must be percent-encoded UTF-8')
  const key = segment.includes('%') ? decodeSegment(segment) : segment
  if (key === '.' || key === '..') {
    throw badKey('cannot be "." or ".." in a path: use kv/ops/mget, kv/ops/mset or kv/ops/delete')
  }
  return key
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw badKey('must be percent-encoded UTF-8')
  }
}

function badKey(why: string): CellError {
  return new CellError('invalid_key', `key ${why}.`, { field: 'key' })
}
