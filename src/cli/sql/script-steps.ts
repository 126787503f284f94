import { DEFAULT_LIMITS } from '../../base/options/limits.ts'
import { SqlTokens } from '../../engine/sql-policy/sql-lexer.ts'
import { readPragma } from '../../engine/sql-policy/sql-pragma.ts'
import { type ScriptStatement, statementsOf } from '../../engine/sql-policy/sql-script.ts'
import { SqlStatement, type StatementVerb, skipGroup } from '../../engine/sql-policy/sql-statement.ts'
import { CellError } from '../../errors.ts'

/** A statement of a script, with its number in it, from 1. */
export type NumberedStatement = ScriptStatement & { number: number }

/** What of a script runs at once: one statement, or all between BEGIN and COMMIT. */
export interface ScriptStep {
  statements: readonly NumberedStatement[]
  isTransaction: boolean
  /** The output of `sqlite3 .dump`. */
  isDump?: boolean
}

/**
 * Splits a script into what runs one after the other. A cell opens no transaction in SQL, because it would outlive the
 * statement; so what stands between BEGIN and COMMIT becomes one batch. Of a transaction that ends in ROLLBACK nothing runs.
 * A dump of `sqlite3` turns foreign keys off before it begins: a cell defers them instead.
 *
 * @throws `invalid_request` for a transaction without an end
 */
export function stepsOf(script: string): ScriptStep[] {
  const steps: ScriptStep[] = []
  let begun: { at: NumberedStatement; statements: NumberedStatement[] } | undefined
  let number = 0
  for (const each of statementsOf(script)) {
    const statement = { ...each, number: ++number }
    const verb = verbOf(statement)
    if (begun === undefined) {
      if (verb === 'BEGIN') begun = { at: statement, statements: [] }
      else steps.push({ statements: [statement], isTransaction: false })
    } else if (verb === 'COMMIT' || verb === 'END' || isRollback(verb, statement)) {
      const { at, statements } = begun
      begun = undefined
      if (verb === 'ROLLBACK' || statements.length === 0) continue
      const before = steps.at(-1)?.statements[0]
      if (before?.number === at.number - 1 && turnsKeysOff(before) && isDump(statements))
        steps[steps.length - 1] = {
          statements: batchOfDump(before, statements),
          isTransaction: true,
          isDump: true,
        }
      else steps.push({ statements, isTransaction: true })
    } else {
      begun.statements.push(statement)
    }
  }
  if (begun === undefined) return steps
  throw new CellError(
    'invalid_request',
    `The transaction that begins with ${placeOf(begun.at)}, has no COMMIT. Nothing was run.`,
    { field: 'sql' },
  )
}

/** `statement 3, at line 12`. */
export function placeOf({ number, line }: NumberedStatement): string {
  return `statement ${number}, at line ${line}`
}

function verbOf({ sql }: ScriptStatement): StatementVerb | undefined {
  const { explain, verb } = new SqlStatement(sql).head
  return explain ? undefined : verb
}

/** ROLLBACK TO a savepoint goes on; the cell refuses it, as it refuses savepoints. */
function isRollback(verb: StatementVerb | undefined, { sql }: ScriptStatement): boolean {
  return verb === 'ROLLBACK' && !/\bTO\b/i.test(sql)
}

interface Statement {
  sql: string
}

/** Where a dump doesn't fit into a batch, or holds what tenants can't run. */
export const IMPORT_INSTEAD =
  'A dump that a cell does not take as SQL can be imported: sqlite3 app.db < dump.sql, then cellstore cells import app.db.'

/** `PRAGMA foreign_keys = OFF`, with which `sqlite3 .dump` begins. */
function turnsKeysOff(statement: Statement): boolean {
  const { verb, verbIndex } = new SqlStatement(statement.sql).head
  if (verb !== 'PRAGMA') return false
  const tokens = new SqlTokens(statement.sql)
  const { name, nameIndex } = readPragma(tokens, verbIndex)
  return name === 'foreign_keys' && /^(OFF|0|NO|FALSE)$/i.test(tokens.at(nameIndex + 2)?.text ?? '')
}

/**
 * Whether a transaction only makes tables and fills them, as a dump does. In one that drops a table, foreign keys that are not off
 * would empty the tables that refer to it.
 */
function isDump(statements: readonly Statement[]): boolean {
  return statements.every(({ sql }) => {
    const { verb } = new SqlStatement(sql).head
    return DUMPED.has(verb) || /^DELETE\s+FROM\s+sqlite_sequence$/i.test(sql.trim())
  })
}

const DUMPED: ReadonlySet<string> = new Set(['CREATE', 'INSERT', 'ANALYZE', 'PRAGMA'])

/**
 * A dump as a batch that a cell takes: its foreign keys are judged at the end, all tables are there before rows refer to them, and
 * rows of a table that follow each other are one statement.
 *
 * @param keysOff its first statement
 */
function batchOfDump<S extends Statement>(keysOff: S, statements: readonly S[]): S[] {
  const deferred = { ...keysOff, sql: 'PRAGMA defer_foreign_keys = ON' }
  const tables = statements.filter(({ sql }) => CREATES_TABLE.test(sql))
  const rest = statements.filter(({ sql }) => !CREATES_TABLE.test(sql))
  return [deferred, ...tables, ...withRowsTogether(rest)]
}

const CREATES_TABLE = /^CREATE\s+TABLE\b/i

function withRowsTogether<S extends Statement>(statements: readonly S[]): S[] {
  const together: S[] = []
  let last: { into: string; parts: string[]; bytes: number } | undefined
  const end = () => {
    const statement = together.at(-1)
    if (last !== undefined && statement !== undefined) statement.sql = last.parts.join(',\n')
    last = undefined
  }
  for (const statement of statements) {
    const insert = readInsert(statement.sql)
    const bytes = Buffer.byteLength(statement.sql) + 2
    if (
      insert !== undefined &&
      insert.into === last?.into &&
      last.bytes + bytes <= DEFAULT_LIMITS.sqlBytesMax
    ) {
      last.parts.push(insert.row)
      last.bytes += bytes
      continue
    }
    end()
    together.push({ ...statement })
    if (insert !== undefined) last = { into: insert.into, parts: [statement.sql], bytes }
  }
  end()
  return together
}

/** The two parts of `INSERT INTO table (columns) VALUES (…)`; undefined for any other statement. */
function readInsert(sql: string): { into: string; row: string } | undefined {
  const tokens = new SqlTokens(sql)
  if (!tokens.is(0, 'INSERT') || !tokens.is(1, 'INTO')) return undefined
  const values = skipGroup(tokens, 3)
  const row = tokens.at(values + 1)
  if (!tokens.is(values, 'VALUES') || row?.text !== '(') return undefined
  if (tokens.at(skipGroup(tokens, values + 1)) !== undefined) return undefined
  return { into: sql.slice(0, row.start), row: sql.slice(row.start) }
}
