import { sqlShape } from '../../engine/sql-policy/sql-shape.ts'
import type { CellOperation, UnreadOperation } from '../../service/operations.ts'

/** Statements of a batch that are shown. */
const STATEMENTS_SHOWN = 3
/** A longer body is not read for a line of the log: that would hold up the event loop. */
const BODY_BYTES_MAX = 65_536

/** What a log may show of an operation: the shape of its statements, without any value. */
export function operationShape(operation: CellOperation): string {
  switch (operation.op) {
    case 'sql':
      return sqlShape(operation.sql)
    case 'batch':
      return batchShape(operation.operations.map((each) => (each.op === 'sql' ? each.sql : undefined)))
    case 'unread':
      return unreadShape(operation)
    default:
      return operation.op
  }
}

/** @param statements undefined for an operation that is none */
function batchShape(statements: readonly (string | undefined)[]): string {
  const shown = statements.filter((sql) => sql !== undefined).slice(0, STATEMENTS_SHOWN)
  return [`batch of ${statements.length}`, ...shown.map(sqlShape)].join('; ')
}

function unreadShape({ kind, body }: UnreadOperation): string {
  if (kind === 'kv.mset') return kind
  const unknown = `${kind} of ${body.byteLength} bytes`
  if (body.byteLength > BODY_BYTES_MAX) return unknown
  try {
    const read = JSON.parse(Buffer.from(body).toString()) as {
      sql?: unknown
      operations?: { sql?: unknown }[]
    }
    if (kind === 'batch') return batchShape((read.operations ?? []).map(({ sql }) => textOf(sql)))
    const sql = textOf(read.sql)
    return sql === undefined ? unknown : sqlShape(sql)
  } catch {
    return unknown
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
