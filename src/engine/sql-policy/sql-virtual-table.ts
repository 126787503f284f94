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

/**
 * Checks a CREATE VIRTUAL TABLE statement, whose table's name is at the index.
 *
 * @throws `statement_not_allowed` for a module that is not on the list, and for a text with a name that tenants may not use
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
}
