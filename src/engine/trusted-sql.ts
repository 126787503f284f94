import { CellError } from '../errors.ts'
import { SqlTokens } from './sql-lexer.ts'
import { readHead, type StatementShape, type StatementVerb } from './sql-shape.ts'
import { nameOf } from './sql-token.ts'

/** The engine has to know where every transaction begins and ends. */
const TRANSACTION_VERBS: ReadonlySet<StatementVerb> = new Set(['BEGIN', 'COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE'])

/** Durability and backups stand on these. */
const ENGINE_PRAGMAS = new Set([
  'journal_mode',
  'locking_mode',
  'max_page_count',
  'synchronous',
  'wal_autocheckpoint',
  'wal_checkpoint',
])

/**
 * The policy for SQL of the embedding program itself: everything is its own affair, but for what would pull the ground
 * from under the engine.
 *
 * @throws `statement_not_allowed`
 */
export function checkTrustedStatement(sql: string): StatementShape {
  const tokens = new SqlTokens(sql)
  const { shape, verb, verbIndex } = readHead(tokens)
  if (TRANSACTION_VERBS.has(verb)) {
    throw new CellError('statement_not_allowed', `${verb} is the engine's: use cell.transaction(), or a batch over HTTP.`)
  }
  if (verb === 'PRAGMA') {
    const schemaQualified = tokens.is(verbIndex + 2, '.')
    const name = nameOf(tokens.at(verbIndex + (schemaQualified ? 3 : 1)))
    if (name !== undefined && ENGINE_PRAGMAS.has(name)) {
      throw new CellError('statement_not_allowed', `PRAGMA ${name} is the engine's: durability and backups depend on it.`)
    }
  }
  return shape
}
