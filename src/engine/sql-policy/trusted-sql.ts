import { CellError } from '../../errors.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { checkReservedUnchanged } from './sql-names.ts'
import { readPragma } from './sql-pragma.ts'
import type { StatementHead, StatementVerb } from './sql-statement.ts'

/** The engine has to know where every transaction begins and ends. */
const TRANSACTION_VERBS: ReadonlySet<StatementVerb> = new Set([
  'BEGIN',
  'COMMIT',
  'END',
  'ROLLBACK',
  'SAVEPOINT',
  'RELEASE',
])

/** Durability and backups depend on these: they can be read, but not set. */
const ENGINE_PRAGMAS = new Set([
  'journal_mode',
  'journal_size_limit',
  'locking_mode',
  'max_page_count',
  'query_only',
  'schema_version',
  'synchronous',
  'wal_autocheckpoint',
  'writable_schema',
])

/**
 * The policy for the embedding program's own SQL: everything is allowed except what would break the engine.
 *
 * @throws `statement_not_allowed`
 */
export function checkTrustedStatement(tokens: SqlTokens, head: StatementHead): void {
  const { verb, verbIndex } = head
  if (TRANSACTION_VERBS.has(verb)) {
    throw new CellError(
      'statement_not_allowed',
      `The engine controls transactions, so ${verb} is not allowed: use cell.transaction(), or a batch over HTTP.`,
    )
  }
  if (verb === 'PRAGMA') checkPragma(tokens, verbIndex)
  checkReservedUnchanged(tokens, head)
}

function checkPragma(tokens: SqlTokens, verbIndex: number): void {
  const { name, isSet } = readPragma(tokens, verbIndex)
  if (name !== 'wal_checkpoint' && !(ENGINE_PRAGMAS.has(name) && isSet)) return
  throw new CellError(
    'statement_not_allowed',
    `The engine controls PRAGMA ${name}: durability and backups depend on it.`,
  )
}
