import { CellError } from '../../errors.ts'
import { checkOwnersNames, checkOwnersNamesInText, type OwnersNames } from './owners-names.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { checkNames } from './sql-names.ts'
import { checkPragma } from './sql-pragma.ts'
import type { StatementHead, StatementVerb } from './sql-statement.ts'
import { asciiUpper, nameOf } from './sql-token.ts'
import { checkVirtualTable } from './sql-virtual-table.ts'

const TRANSACTION_MEND =
  'Transactions are not opened in SQL: send the operations as one batch, or use transaction() in the library.'
const ATTACH_MEND = 'A statement works on one cell. Query each cell separately.'

const MENDS: Partial<Record<StatementVerb, string>> = {
  BEGIN: TRANSACTION_MEND,
  COMMIT: TRANSACTION_MEND,
  END: TRANSACTION_MEND,
  ROLLBACK: TRANSACTION_MEND,
  SAVEPOINT: TRANSACTION_MEND,
  RELEASE: TRANSACTION_MEND,
  ATTACH: ATTACH_MEND,
  DETACH: ATTACH_MEND,
  VACUUM: 'The engine maintains the file. For a copy of the cell, make a backup.',
  PRAGMA: 'SQLite runs a PRAGMA even under EXPLAIN. Run it without EXPLAIN.',
  EXPLAIN: 'Write EXPLAIN once.',
}
const FIRST_WORD_MEND =
  'A statement starts with SELECT, VALUES, WITH, INSERT, REPLACE, UPDATE, DELETE, CREATE, DROP, ALTER, ANALYZE, REINDEX, EXPLAIN or PRAGMA.'

/** What can follow the verbs that change the schema. */
const SCHEMA_OBJECTS: Partial<Record<StatementVerb, readonly string[]>> = {
  CREATE: ['TABLE', 'VIRTUAL', 'VIEW', 'INDEX', 'UNIQUE', 'TRIGGER'],
  DROP: ['TABLE', 'VIEW', 'INDEX', 'TRIGGER'],
  ALTER: ['TABLE'],
}

/**
 * The SQL policy: decides by the words of a tenant's text whether it may be prepared (invariant 5). It can't wait for
 * SQLite, since PRAGMAs act while they are prepared, and SQLite's `readonly` says nothing about ATTACH or BEGIN. It allows
 * only what is on its lists, so that it refuses everything unknown.
 *
 * It judges the first statement's verb, and every name in the text. It does not validate: an allowed text may still be
 * nonsense, several statements, or no statement (`BLANK`), which preparing reports. Nor does it bound the cost of a statement,
 * or prevent one from ending the transaction by an error such as SQLITE_FULL.
 *
 * @throws `statement_not_allowed`
 */
export function checkStatement(tokens: SqlTokens, head: StatementHead, owners?: OwnersNames): void {
  checkVerb(tokens, head)
  checkNames(tokens, head)
  if (owners === undefined) return
  checkOwnersNames(tokens, owners)
  if (tokens.is(head.verbIndex + 1, 'VIRTUAL')) checkOwnersNamesInText(tokens, owners)
}

function checkVerb(tokens: SqlTokens, head: StatementHead): void {
  switch (head.verb) {
    case 'SELECT':
    case 'VALUES':
    case 'WITH':
    case 'INSERT':
    case 'REPLACE':
    case 'UPDATE':
    case 'DELETE':
    case 'ANALYZE':
    case 'REINDEX':
    case 'BLANK':
      return
    case 'CREATE':
    case 'DROP':
    case 'ALTER':
      checkSchemaObject(tokens, head)
      return
    case 'PRAGMA':
      if (head.explain) throw refusedVerb(head)
      checkPragma(tokens, head.verbIndex)
      return
    default:
      throw refusedVerb(head)
  }
}

function checkSchemaObject(tokens: SqlTokens, { verb, verbIndex }: StatementHead): void {
  const object = asciiUpper(tokens.at(verbIndex + 1)?.text ?? '')
  if (object === 'TEMP' || object === 'TEMPORARY') {
    throw notAllowed(
      'TEMP objects are not available: a connection is shared. Use an ordinary table and drop it.',
    )
  }
  const objects = SCHEMA_OBJECTS[verb] ?? []
  if (!objects.includes(object)) throw notAllowed(`${verb} is followed by ${objects.join(', ')}.`)
  if (verb === 'ALTER') checkNewName(tokens, renamedIndex(tokens, verbIndex))
  if (verb !== 'CREATE') return
  const nameIndex = createdNameIndex(
    tokens,
    object === 'UNIQUE' || object === 'VIRTUAL' ? verbIndex + 2 : verbIndex + 1,
  )
  // SQLite accepts this, stores it without IF NOT EXISTS and the schema, and can't read it back: the transaction is lost.
  if (tokens.is(nameIndex, 'IF')) throw notAllowed('Quote the name IF here: "if".')
  checkNewName(tokens, nameIndex)
  if (object === 'VIRTUAL') checkVirtualTable(tokens, nameIndex)
}

/** A table called like one of SQLite's PRAGMA functions takes the function's place, for the engine's own questions too. */
function checkNewName(tokens: SqlTokens, nameIndex: number): void {
  if (nameOf(tokens.at(nameIndex))?.startsWith('pragma_') !== true) return
  throw notAllowed('Names that start with pragma_ are SQLite functions. Choose another name.')
}

/** The index of the new name, in `TABLE [schema.]name RENAME TO new`. */
function renamedIndex(tokens: SqlTokens, verbIndex: number): number {
  const rename = tokens.is(verbIndex + 3, '.') ? verbIndex + 5 : verbIndex + 3
  return tokens.is(rename, 'RENAME') && tokens.is(rename + 1, 'TO') ? rename + 2 : -1
}

/** The index of the new object's name, in `TABLE [IF NOT EXISTS] [schema.]name`, whose first word is at this index. */
function createdNameIndex(tokens: SqlTokens, kindIndex: number): number {
  // A bare IF here is the keyword, never a name, as in SQLite's grammar.
  const index = tokens.is(kindIndex + 1, 'IF') ? kindIndex + 4 : kindIndex + 1
  return tokens.is(index + 1, '.') ? index + 2 : index
}

function refusedVerb({ explain, verb }: StatementHead): CellError {
  const what = verb === 'UNKNOWN' ? 'This statement' : explain ? `EXPLAIN ${verb}` : verb
  return notAllowed(`${what} is not allowed. ${MENDS[verb] ?? FIRST_WORD_MEND}`)
}

function notAllowed(message: string): CellError {
  return new CellError('statement_not_allowed', message)
}
