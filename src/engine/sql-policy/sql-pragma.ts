import { CellError } from '../../errors.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { nameOf } from './sql-token.ts'

type PragmaArgument = 'none' | 'name' | 'number' | 'name or number'

/** The PRAGMAs a tenant may use: they report, or change nothing but the tenant's own file. No other may ever reach prepare. */
const PRAGMAS: ReadonlyMap<string, PragmaArgument> = new Map([
  ['table_info', 'name'],
  ['table_xinfo', 'name'],
  ['table_list', 'name'],
  ['index_list', 'name'],
  ['index_info', 'name'],
  ['index_xinfo', 'name'],
  ['foreign_key_list', 'name'],
  ['foreign_key_check', 'name'],
  ['integrity_check', 'name or number'],
  ['quick_check', 'name or number'],
  ['optimize', 'number'],
  ['function_list', 'none'],
  ['compile_options', 'none'],
  ['user_version', 'number'],
  ['defer_foreign_keys', 'name or number'],
])

/** `pragma_optimize` would write from inside a SELECT, and `pragma_defer_foreign_keys` tells of a setting: nothing else does. */
const WITHOUT_FUNCTION: ReadonlySet<string> = new Set(['optimize', 'defer_foreign_keys'])
const WHOLE_NUMBER = /^(?:\d+|0x[0-9a-f]+)$/i
/** SQLite silently takes a larger number for 0. */
const NUMBER_MAX = 2 ** 31 - 1

/** @param name of a table-valued function, without its `pragma_` */
export function isAllowedPragmaFunction(name: string): boolean {
  return PRAGMAS.has(name) && !WITHOUT_FUNCTION.has(name)
}

/**
 * Checks a whole PRAGMA statement, whose first word is at the index.
 *
 * @throws `statement_not_allowed` for a PRAGMA that is not on the list, on another schema than `main`, or with an
 * argument of another kind than it takes.
 */
export function checkPragma(tokens: SqlTokens, index: number): void {
  const { name, nameIndex } = readPragma(tokens, index)
  if (nameIndex > index + 1 && nameOf(tokens.at(index + 1)) !== 'main') {
    throw notAllowed('A PRAGMA works only on this cell. Leave out the schema name.')
  }
  const argument = PRAGMAS.get(name)
  if (name === 'foreign_keys') {
    throw notAllowed(
      'Foreign keys are always on. To rebuild a table that others refer to, send PRAGMA defer_foreign_keys = ON in the same batch.',
    )
  }
  if (argument === undefined) {
    throw notAllowed(
      `This PRAGMA is not allowed here; the engine keeps the settings of a connection. Allowed are ${[...PRAGMAS.keys()].join(', ')}.`,
    )
  }
  const end = skipArgument(tokens, nameIndex + 1, argument)
  if (end === undefined || (tokens.at(end) !== undefined && !tokens.is(end, ';'))) {
    throw notAllowed(`PRAGMA ${name} takes ${ARGUMENT_HELP[argument]} here.`)
  }
}

/** Whether a PRAGMA statement, whose first word is at the index, certainly changes nothing. */
export function pragmaOnlyReads(tokens: SqlTokens, index: number): boolean {
  const { name, isSet } = readPragma(tokens, index)
  if (!PRAGMAS.has(name) || name === 'optimize') return false
  return !isSet || (name !== 'user_version' && name !== 'defer_foreign_keys')
}

/** What a PRAGMA statement, whose first word is at the index, names, and whether it gives a value. */
export function readPragma(
  tokens: SqlTokens,
  index: number,
): { name: string; nameIndex: number; isSet: boolean } {
  const nameIndex = tokens.is(index + 2, '.') ? index + 3 : index + 1
  const isSet = tokens.is(nameIndex + 1, '=') || tokens.is(nameIndex + 1, '(')
  return { name: nameOf(tokens.at(nameIndex)) ?? '', nameIndex, isSet }
}

const ARGUMENT_HELP: Record<PragmaArgument, string> = {
  none: 'no argument',
  name: 'one name in parentheses',
  number: `no argument or one whole number up to ${NUMBER_MAX}`,
  'name or number': 'no argument, one name, or one whole number',
}

/** The index after `= argument` or `(argument)`, or this index if there is neither; undefined for any other form. */
function skipArgument(tokens: SqlTokens, index: number, argument: PragmaArgument): number | undefined {
  const inParentheses = tokens.is(index, '(')
  if (!inParentheses && !tokens.is(index, '=')) return index
  const hasSign = tokens.is(index + 1, '-') || tokens.is(index + 1, '+')
  const valueIndex = hasSign ? index + 2 : index + 1
  const value = tokens.at(valueIndex)
  const isNumber =
    value?.kind === 'number' && WHOLE_NUMBER.test(value.text) && Number(value.text) <= NUMBER_MAX
  const isName = !hasSign && nameOf(value) !== undefined
  const fits = (isNumber && argument.includes('number')) || (isName && argument.includes('name'))
  if (!fits || (inParentheses && !tokens.is(valueIndex + 1, ')'))) return undefined
  return inParentheses ? valueIndex + 2 : valueIndex + 1
}

function notAllowed(message: string): CellError {
  return new CellError('statement_not_allowed', message)
}
