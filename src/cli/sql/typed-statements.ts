import { SqlTokens } from '../../engine/sql-policy/sql-lexer.ts'
import { statementsOf } from '../../engine/sql-policy/sql-script.ts'

/** What a person has typed so far: statements that a semicolon has ended, and the beginning of the next one. */
export interface TypedStatements {
  whole: string[]
  /** Empty if only blanks and comments are left. */
  rest: string
}

/** Splits what was typed. A semicolon in a literal, a comment or the body of a trigger ends nothing. */
export function splitTyped(text: string): TypedStatements {
  const whole: string[] = []
  let end = 0
  for (const statement of statementsOf(text)) {
    if (statement.end === undefined) break
    whole.push(statement.sql)
    end = statement.end
  }
  const rest = text.slice(end)
  return { whole, rest: isBlank(rest) ? '' : rest }
}

/** Whether a text has no statement, and no comment that is still open: that one would take the marks added here. */
function isBlank(text: string): boolean {
  const tokens = new SqlTokens(`${text}\n*/`)
  let token = tokens.next()
  while (token?.text === ';') token = tokens.next()
  return token?.text === '*' && tokens.next()?.text === '/' && tokens.next() === undefined
}
