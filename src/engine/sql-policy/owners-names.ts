import { CellError } from '../../errors.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { nameOf } from './sql-token.ts'

/** Names, in lower case, of what the owner of a store has added to SQL and not allowed to tenants. */
export interface OwnersNames {
  readonly functions: ReadonlySet<string>
  /** Of virtual tables: some can be read without being created. */
  readonly modules: ReadonlySet<string>
}

/** Operators that SQLite turns into a call of the function of the same name. */
const OPERATORS: ReadonlySet<string> = new Set(['like', 'glob', 'match', 'regexp'])

/**
 * Refuses a text that calls one of the functions, or names one of the modules.
 *
 * @throws `statement_not_allowed`
 */
export function checkOwnersNames(tokens: SqlTokens, { functions, modules }: OwnersNames): void {
  for (let index = 0; tokens.at(index) !== undefined; index++) {
    const name = nameOf(tokens.at(index))
    if (name === undefined) continue
    if (modules.has(name)) throw refused(`The table-valued function or module ${name}`)
    if (!functions.has(name)) continue
    const isOperator = OPERATORS.has(name) && tokens.at(index)?.kind === 'word'
    if (isOperator || tokens.is(index + 1, '(')) throw refused(`The function ${name}()`)
  }
}

const WORD = /[\w$\u0080-\uffff]+/g

/** As {@link checkOwnersNames}, for a virtual table: its module may call a function that its text only names. */
export function checkOwnersNamesInText(tokens: SqlTokens, { functions, modules }: OwnersNames): void {
  for (const [word] of tokens.sql.toLowerCase().matchAll(WORD)) {
    if (functions.has(word) || modules.has(word)) throw refused(`In the text of a virtual table, ${word}`)
  }
}

function refused(what: string): CellError {
  return new CellError(
    'statement_not_allowed',
    `${what} is not allowed here. The owner of the store can allow it (tenantFunctions).`,
  )
}
