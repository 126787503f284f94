import { sqlShape } from '../../../engine/sql-policy/sql-shape.ts'
import {
  type CellOperation,
  type CellRequest,
  type CellRoute,
  STATEMENT_ROUTES,
} from '../../../service/operations.ts'

/** Statements of a batch that are shown. */
const STATEMENTS_SHOWN = 3
/** A longer body is not read for a line of the log: that would hold up the event loop. */
const BODY_BYTES_MAX = 65_536
/** Of a longer body so much is looked at: a shape shows no more of a statement. */
const HEAD_BYTES = 4_096
/** The statement with which a body begins, as JSON has it, or its beginning. What comes later in a body may be a value. */
const FIRST_SQL =
  /^\s*\{\s*(?:"operations"\s*:\s*\[\s*\{\s*)?"sql"\s*:\s*"((?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)/

/** What a log may show of an operation: the shape of its statements, without any value. */
export function operationShape(operation: CellOperation): string {
  switch (operation.op) {
    case 'sql':
      return sqlShape(operation.sql)
    case 'batch':
      return batchShape(operation.operations.map((each) => (each.op === 'sql' ? each.sql : undefined)))
    case 'request':
      return requestShape(operation)
    default:
      return operation.op
  }
}

/** @param statements undefined for an operation that is none */
function batchShape(statements: readonly (string | undefined)[]): string {
  const shown = statements.filter((sql) => sql !== undefined).slice(0, STATEMENTS_SHOWN)
  return [`batch of ${statements.length}`, ...shown.map(sqlShape)].join('; ')
}

function requestShape({ route: kind, body, parsed }: CellRequest): string {
  if (!STATEMENT_ROUTES.has(kind)) return kind
  if (body === undefined) return parsed === undefined ? kind : shapeOfBody(kind, parsed.value, kind)
  const unknown = `${kind} of ${body.byteLength} bytes`
  try {
    if (body.byteLength > BODY_BYTES_MAX) {
      const first = firstSql(body)
      if (first === undefined) return unknown
      return kind === 'batch' ? `${unknown}; ${sqlShape(first)}` : sqlShape(first)
    }
    return shapeOfBody(kind, JSON.parse(Buffer.from(body).toString()), unknown)
  } catch {
    return unknown
  }
}

/** @param unknown for a body that nobody can run */
function shapeOfBody(kind: CellRoute, body: unknown, unknown: string): string {
  if (kind.startsWith('hrana.'))
    return [kind, ...hranaTexts(body).slice(0, STATEMENTS_SHOWN).map(sqlShape)].join('; ')
  const read = Object(body) as { sql?: unknown; operations?: unknown }
  if (kind === 'batch') {
    const operations = Array.isArray(read.operations) ? (read.operations as unknown[]) : []
    return batchShape(operations.map((each) => textOf((Object(each) as { sql?: unknown }).sql)))
  }
  const sql = textOf(read.sql)
  return sql === undefined ? unknown : sqlShape(sql)
}

/** Of statements that a stream keeps there is only a number here. */
function hranaTexts(body: unknown): string[] {
  const { requests, batch } = Object(body) as { requests?: unknown; batch?: unknown }
  const asked = Array.isArray(requests) ? (requests as unknown[]) : [{ batch }]
  return asked.flatMap((request) => {
    const { stmt, sql, batch } = Object(request) as { stmt?: unknown; sql?: unknown; batch?: unknown }
    const { steps } = Object(batch) as { steps?: unknown }
    const stmts = Array.isArray(steps)
      ? steps.map((step) => (Object(step) as { stmt?: unknown }).stmt)
      : [stmt]
    return [...stmts.map((each) => (Object(each) as { sql?: unknown }).sql), sql].flatMap(
      (text) => textOf(text) ?? [],
    )
  })
}

function firstSql(body: Uint8Array): string | undefined {
  const [, text] = FIRST_SQL.exec(Buffer.from(body.subarray(0, HEAD_BYTES)).toString()) ?? []
  return text === undefined ? undefined : textOf(JSON.parse(`"${text}"`))
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
