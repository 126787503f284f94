import { SqlTokens } from './sql-lexer.ts'
import { asciiUpper, type SqlToken } from './sql-token.ts'

/** One statement of a script. */
export interface ScriptStatement {
  /** Without its semicolon. */
  sql: string
  /** Line of its first word in the script, from 1. */
  line: number
  /** Behind its semicolon; undefined if the script ends before one. */
  end: number | undefined
}

/**
 * Splits a script at the semicolons that end its statements: not at those in literals, comments and the bodies of triggers.
 * Reads on demand, so that a long script takes no memory for statements that have not come yet.
 */
export function* statementsOf(script: string): Generator<ScriptStatement, void> {
  const tokens = new SqlTokens(script)
  let statement = new StatementShape()
  let line = 1
  let counted = 0
  for (let token = tokens.next(); token !== undefined; token = tokens.next()) {
    if (!statement.endsAt(token)) {
      statement.add(token)
      continue
    }
    const { start } = statement
    if (start !== undefined) {
      line += linesIn(script, counted, start)
      counted = start
      yield { sql: script.slice(start, token.start), line, end: token.start + 1 }
    }
    statement = new StatementShape()
  }
  const { start } = statement
  if (start === undefined) return
  yield { sql: script.slice(start), line: line + linesIn(script, counted, start), end: undefined }
}

/** What has been read of a statement, as far as its end depends on it. */
class StatementShape {
  /** Of its first token; undefined before that. */
  start: number | undefined
  readonly #firstWords: string[] = []
  /** The last two tokens: `;` and END stand before the semicolon that ends a trigger. */
  #beforeLast = ''
  #last = ''

  add(token: SqlToken): void {
    this.start ??= token.start
    const text = token.kind === 'word' || token.kind === 'operator' ? asciiUpper(token.text) : ''
    if (this.#firstWords.length < FIRST_WORDS_MAX) this.#firstWords.push(text)
    this.#beforeLast = this.#last
    this.#last = text
  }

  endsAt(token: SqlToken): boolean {
    if (token.kind !== 'operator' || token.text !== ';') return false
    return !this.#isTrigger || (this.#last === 'END' && this.#beforeLast === ';')
  }

  get #isTrigger(): boolean {
    return TRIGGER.test(this.#firstWords.join(' '))
  }
}

const FIRST_WORDS_MAX = 6
const TRIGGER = /^(EXPLAIN (QUERY PLAN )?)?CREATE (TEMP |TEMPORARY )?TRIGGER\b/

function linesIn(text: string, from: number, to: number): number {
  let lines = 0
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) lines++
  return lines
}
