import { CellError } from '../../errors.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { readPragma } from './sql-pragma.ts'
import type { StatementHead } from './sql-statement.ts'

/**
 * Refuses the two PRAGMAs for foreign keys where SQLite takes them and they don't do what they say: `foreign_keys` is ignored
 * inside a transaction, and `defer_foreign_keys`, which ends with a transaction, lasts outside of one until some later statement
 * (invariant 6).
 *
 * @returns whether the statement sets one of them: it depends on the place each time it comes
 * @throws `statement_not_allowed`
 */
export function checkForeignKeyPragma(
  tokens: SqlTokens,
  { verb, verbIndex }: StatementHead,
  inTransaction: boolean,
): boolean {
  if (verb !== 'PRAGMA') return false
  const { name, isSet } = readPragma(tokens, verbIndex)
  if (!isSet || (name !== 'foreign_keys' && name !== 'defer_foreign_keys')) return false
  if (name === 'foreign_keys' && inTransaction) {
    throw notHere(
      'PRAGMA foreign_keys does nothing inside a transaction. Set it with cell.sql() before the transaction or the script, and ' +
        'back after it. A migration needs no PRAGMA: migrate() turns foreign keys off for each step, and checks them at its end.',
    )
  }
  if (name === 'defer_foreign_keys' && !inTransaction) {
    throw notHere(
      'PRAGMA defer_foreign_keys lasts until the end of a transaction: make it the first operation of a batch over HTTP, or use it in ' +
        'cell.transaction().',
    )
  }
  return true
}

function notHere(message: string): CellError {
  return new CellError('statement_not_allowed', message)
}
