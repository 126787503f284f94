import { CellError } from '../../errors.ts'
import { SqlTokens } from './sql-lexer.ts'
import { nameOf, wholeNameOf } from './sql-token.ts'

/**
 * An INSERT into an FTS5 table's own name is a command, and `rank` then holds its value. These are for tenants. The others
 * set how much a later COMMIT merges at once: one row could cost seconds.
 */
const COMMANDS: ReadonlySet<string> = new Set(['integrity-check', 'merge', 'rank', 'secure-delete'])

/** Characters of a name in a message. */
const SHOWN_MAX = 64

/**
 * Checks an INSERT whose target's name stands at the index, for a command with a value. Such a command is named in the
 * statement: a value that is bound or read from a table could be any.
 *
 * @throws `statement_not_allowed`
 */
export function checkFullTextCommand(tokens: SqlTokens, targetIndex: number): void {
  const open = tokens.is(targetIndex + 1, 'AS') ? targetIndex + 3 : targetIndex + 1
  if (!tokens.is(open, '(')) return
  const columns = columnNames(tokens, open)
  const target = wholeNameOf(tokens.at(targetIndex))
  const command = columns.indexOf(target)
  if (command < 0 || !columns.includes('rank')) return
  const values = open + 2 * columns.length
  const isNamed = columns.lastIndexOf(target) === command && isOneRow(tokens, values, columns.length)
  const given = isNamed ? tokens.at(values + 3 + 2 * command) : undefined
  if (given?.kind === 'string' && COMMANDS.has(nameOf(given) ?? '')) return
  const shown = target?.slice(0, SHOWN_MAX)
  throw new CellError(
    'statement_not_allowed',
    `INSERT INTO ${shown}(${shown}, rank) would be a command to a full-text table. ` +
      `Write it as VALUES ('command', value) with one of ${[...COMMANDS].join(', ')}. ` +
      'For an ordinary table with these columns, leave the column names out.',
  )
}

/**
 * Checks the text of a trigger once more after an ALTER: renamed in it, an INSERT into an ordinary table may have become a command.
 *
 * @throws `statement_not_allowed`
 */
export function checkFullTextCommands(sql: string): void {
  const tokens = new SqlTokens(sql)
  for (let i = 0; tokens.at(i) !== undefined; i++)
    if (tokens.is(i, 'INTO')) checkFullTextCommand(tokens, targetAfter(tokens, i))
}

/** Where the table's name stands after INTO. */
export function targetAfter(tokens: SqlTokens, into: number): number {
  return tokens.is(into + 2, '.') ? into + 3 : into + 1
}

/** Of `(name, name, …)`; one token for each name, so that the last stands before the closing parenthesis. */
function columnNames(tokens: SqlTokens, open: number): (string | undefined)[] {
  const names: (string | undefined)[] = []
  for (let at = open + 1; ; at += 2) {
    names.push(wholeNameOf(tokens.at(at)))
    if (!tokens.is(at + 1, ',')) return names
  }
}

/** `VALUES (a, b, …)` behind the columns, of single tokens, and no second row. */
function isOneRow(tokens: SqlTokens, close: number, count: number): boolean {
  if (!tokens.is(close, ')') || !tokens.is(close + 1, 'VALUES') || !tokens.is(close + 2, '(')) return false
  for (let i = 0; i < count; i++) {
    const end = i === count - 1 ? ')' : ','
    if (!tokens.is(close + 4 + 2 * i, end)) return false
  }
  return !tokens.is(close + 3 + 2 * count, ',')
}
