import { CellError } from '../errors.ts'
import type { CellAccess } from './holds/cell-access.ts'
import { type ScriptStatement, statementsOf } from './sql-policy/sql-script.ts'
import type { SqlOptions } from './statements/statement-runner.ts'

/**
 * Runs all statements of a script in one transaction, or none of them. Rows are not kept.
 *
 * @throws what a statement throws, with its number and line in the message
 */
export function runScript(
  database: CellAccess,
  script: string,
  options: Pick<SqlOptions, 'policy'> = {},
): void {
  // The lexer stops at a NUL, as SQLite does: half of the script would run.
  if (typeof script !== 'string' || script.includes('\0'))
    throw new CellError('invalid_request', 'A script is a string without NUL characters.', { field: 'sql' })
  database.transaction(() => {
    let index = 0
    for (const statement of statementsOf(script)) {
      runStatement(database, statement, index, options)
      index++
    }
  })
}

function runStatement(
  database: CellAccess,
  { sql, line }: ScriptStatement,
  index: number,
  options: Pick<SqlOptions, 'policy'>,
): void {
  try {
    // Each text is likely to run once: kept, it would take the place of others.
    database.statement((runner) => runner.run(sql, [], options, false))
  } catch (error) {
    if (!(error instanceof CellError)) throw error
    const { code, message, details } = error
    throw new CellError(code, `Statement ${index + 1} of the script, at line ${line}: ${message}`, {
      ...details,
      index,
      cause: error.cause ?? error,
    })
  }
}
