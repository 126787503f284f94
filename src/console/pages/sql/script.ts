import { type Client, isProblem, type SqlValue } from '../../../client/index.ts'
import { statementsOf } from '../../../engine/sql-policy/sql-script.ts'
import type { paramsOf } from './params.ts'

/** A statement of what was written, and where it stands. */
export interface Statement {
  sql: string
  from: number
}

/** What a statement answered. */
export interface Result {
  sql: string
  columns: string[]
  rows: SqlValue[][]
  changes: number
  /** Null for one of a batch that has no time of its own. */
  ms: number | null
}

/** What is wrong, and where in the text. */
export interface Fault {
  error: unknown
  from: number
  to: number
  line: number
}

export class ScriptFailed extends Error {
  readonly fault: Fault

  constructor(fault: Fault) {
    super('A statement failed.', { cause: fault.error })
    this.fault = fault
  }
}

export function statementsIn(text: string): Statement[] {
  return [...statementsOf(text)].map(({ sql, end }) => ({
    sql,
    from: (end === undefined ? text.length : end - 1) - sql.length,
  }))
}

export interface RunOptions {
  id: string
  text: string
  params: ReturnType<typeof paramsOf>
  /** All or none. */
  asBatch: boolean
  signal: AbortSignal
  onResult: (result: Result) => void
}

/**
 * Runs the statements one after the other, up to the first that fails.
 *
 * @throws `ScriptFailed` with the place of what failed
 */
export async function runScript(client: Client, options: RunOptions): Promise<void> {
  const { id, text, params, asBatch, signal, onResult } = options
  const statements = statementsIn(text)
  if (Array.isArray(params) && statements.length > 1)
    throw new SyntaxError(
      'Parameters in order are for one statement. For several, name them: {"id": 1} for :id.',
    )
  const withParams = params === undefined ? {} : { params }
  if (asBatch) {
    const operations = statements.map(({ sql }) => ({ sql, row_mode: 'array' as const, ...withParams }))
    const { results } = await client.batch({ id, operations }, { signal }).catch((error: unknown) => {
      const index = isProblem(error) ? Number((error.problem as { index?: number }).index ?? 0) : 0
      throw failed(text, statements[index] as Statement, error)
    })
    results.forEach((result, at) => {
      onResult(toResult(statements[at] as Statement, result as Answer))
    })
    return
  }
  for (const statement of statements) {
    const args = { id, sql: statement.sql, row_mode: 'array' as const, ...withParams }
    const answer = await client.sql(args, { signal }).catch((error: unknown) => {
      throw failed(text, statement, error)
    })
    onResult(toResult(statement, answer as Answer))
  }
}

interface Answer {
  columns: string[]
  rows: SqlValue[][]
  changes: number
  duration_ms?: number
}

function toResult({ sql }: Statement, { columns, rows, changes, duration_ms }: Answer): Result {
  return { sql, columns, rows, changes, ms: duration_ms ?? null }
}

/** What SQLite names in its messages: the word that it did not expect, or what it did not find. */
const NAMED =
  /near "([^"]+)"|(?:no such|ambiguous) (?:table|column|function|index|view|trigger)(?: name)?: (?:main\.)?([^\s.,]+)/

function failed(text: string, { sql, from }: Statement, error: unknown): ScriptFailed {
  const [, near, missing] = (isProblem(error) ? NAMED.exec(error.message) : null) ?? []
  const word = near ?? missing
  const at = word === undefined ? -1 : sql.toLowerCase().indexOf(word.toLowerCase())
  const start = from + Math.max(0, at)
  const to = at === -1 ? from + sql.trimEnd().length : start + (word as string).length
  return new ScriptFailed({ error, from: start, to, line: text.slice(0, start).split('\n').length })
}
