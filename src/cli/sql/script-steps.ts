import { type ScriptStatement, statementsOf } from '../../engine/sql-policy/sql-script.ts'
import { SqlStatement, type StatementVerb } from '../../engine/sql-policy/sql-statement.ts'
import { CellError } from '../../errors.ts'
import { batchOfDump, isDump, turnsKeysOff } from './dump.ts'

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
