import { CellError } from '../../errors.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { nameOf } from './sql-token.ts'

/** Modules that keep their data in this cell and read nothing but it. */
const MODULES: ReadonlySet<string> = new Set([
  'fts5',
  'fts5vocab',
  'fts4',
  'fts4aux',
  'fts3',
  'rtree',
  'rtree_i32',
  'geopoly',
])

/**
 * What the text of a virtual table may not contain anywhere. A module gets its arguments as text and parses them its own way:
 * it takes table names (`content=`) and function names (`compress=`) from the middle of one token or of none.
 */
const FORBIDDEN_TEXT = /_cell|cell_kv|pragma_|sqlite_temp|load_extension|fts3_tokenizer|sqlite_log/i

/** FTS3 and FTS4 take what stands behind these for SQL that they run on each text. */
const COMPRESS: ReadonlySet<string | undefined> = new Set(['compress', 'uncompress'])

/**
 * Checks a CREATE VIRTUAL TABLE statement, whose table's name is at the index.
 *
 * @throws `statement_not_allowed` for a module that is not on the list and for a text with a name that is not for tenants,
 * or an expression where a function's name belongs.
 */
export function checkVirtualTable(tokens: SqlTokens, nameIndex: number): void {
  const module = tokens.is(nameIndex + 1, 'USING') ? nameOf(tokens.at(nameIndex + 2)) : undefined
  if (module === undefined || !MODULES.has(module)) {
    throw new CellError(
      'statement_not_allowed',
      `Write CREATE VIRTUAL TABLE name USING module(…) with one of the modules ${[...MODULES].join(', ')}.`,
    )
  }
  const forbidden = FORBIDDEN_TEXT.exec(tokens.sql)
  if (forbidden) {
    throw new CellError(
      'statement_not_allowed',
      `The text of a virtual table must not contain ${forbidden[0]}, not even inside another word. Choose other names.`,
    )
  }
  for (let i = nameIndex; tokens.at(i) !== undefined; i++) {
    if (COMPRESS.has(nameOf(tokens.at(i)))) checkFunctionName(tokens, i)
  }
}

/** `option = name` at the index, or the name of something else. */
function checkFunctionName(tokens: SqlTokens, index: number): void {
  if (tokens.at(index + 1)?.text.startsWith('=') !== true) return
  const isName = /^\w+$/.test(nameOf(tokens.at(index + 2)) ?? '')
  const isWhole = tokens.is(index + 3, ',') || tokens.is(index + 3, ')')
  if (tokens.is(index + 1, '=') && isName && isWhole) return
  throw new CellError(
    'statement_not_allowed',
    `${tokens.at(index)?.text} = is followed by the name of one function.`,
  )
}
