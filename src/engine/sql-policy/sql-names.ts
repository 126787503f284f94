import { CellError } from '../../errors.ts'
import { checkFullTextCommand, targetAfter } from './sql-full-text.ts'
import type { SqlTokens } from './sql-lexer.ts'
import { isAllowedPragmaFunction } from './sql-pragma.ts'
import type { StatementHead, StatementVerb } from './sql-statement.ts'
import { asciiUpper, nameOf } from './sql-token.ts'

/** Tables, views and indexes of the engine start with this, in any letter case. */
const RESERVED_PREFIX = '_cell'
const PRAGMA_PREFIX = 'pragma_'

interface Place {
  tokens: SqlTokens
  head: StatementHead
  index: number
}

/** Checks a name in its place. @throws `statement_not_allowed` */
type NameRule = (place: Place) => void

const RULES: ReadonlyMap<string, NameRule> = new Map([
  ['temp', checkTempSchema],
  ['sqlite_temp_schema', refuseTempSchema],
  ['sqlite_temp_master', refuseTempSchema],
  ['cell_kv', checkKvView],
  ['rollback', checkRollback],
  ['into', checkInto],
  ['update', checkTarget],
  ['delete', checkTarget],
  ['load_extension', (place) => checkCall(place, 'Extensions are not loaded from SQL.')],
  ['fts3_tokenizer', (place) => checkCall(place, 'Name the tokenizer in CREATE VIRTUAL TABLE instead.')],
  ['sqlite_log', (place) => checkCall(place, 'It writes to the log of the server.')],
  [
    'optimize',
    (place) => checkCall(place, "Write INSERT INTO t(t) VALUES('optimize') for a full-text table t."),
  ],
])

const KV_MEND = 'Change entries through the KV API; in SQL, cell_kv can only be read.'

/** Tables that tenants can read but not write, and what to do instead. */
const READ_ONLY: ReadonlyMap<string, string> = new Map([
  ['cell_kv', KV_MEND],
  ['sqlite_schema', 'Change the schema with CREATE, ALTER and DROP.'],
  ['sqlite_master', 'Change the schema with CREATE, ALTER and DROP.'],
  ['sqlite_stat1', 'ANALYZE writes it.'],
  ['sqlite_stat2', 'ANALYZE writes it.'],
  ['sqlite_stat3', 'ANALYZE writes it.'],
  ['sqlite_stat4', 'ANALYZE writes it.'],
])

const SCHEMA_VERBS: ReadonlySet<StatementVerb> = new Set(['CREATE', 'DROP', 'ALTER'])
const MAINTENANCE_VERBS: ReadonlySet<StatementVerb> = new Set(['ANALYZE', 'REINDEX'])
/** After one of these, SQLite's grammar takes an expression, never a lone name. */
const BEFORE_VALUE: ReadonlySet<string> = new Set([
  '=',
  '==',
  '<>',
  '!=',
  '<',
  '<=',
  '>',
  '>=',
  '||',
  'LIKE',
  'GLOB',
])

/**
 * Checks every name in a text, with any quotes and in any place: in a view, in a trigger's body, after a semicolon.
 *
 * A '…' literal counts as a name too, because SQLite takes it for one where the grammar needs a name (`FROM '_cell_kv'`).
 * It is certainly a value only after a comparison, `||`, LIKE or GLOB; elsewhere a value that starts with `_cell` must be bound.
 *
 * @throws `statement_not_allowed`
 */
export function checkNames(tokens: SqlTokens, head: StatementHead): void {
  for (let index = 0; tokens.at(index) !== undefined; index++) {
    const name = nameOf(tokens.at(index))
    if (name === undefined || isValue(tokens, head, index)) continue
    if (name.startsWith(RESERVED_PREFIX)) throw reservedName(tokens, index)
    if (name.startsWith(PRAGMA_PREFIX)) checkPragmaFunction(name)
    RULES.get(name)?.({ tokens, head, index })
  }
}

/** Sound, since the names hold nothing that could be written in another way. Most texts need no closer look. */
const MAY_NAME_RESERVED = /_cell/i

/**
 * Checks that a statement of a trusted caller changes none of the engine's tables; it may read them. Their names must not
 * stand in a statement that changes the schema either, except for what a view reads: a foreign key to `_cell_kv` would make
 * deletions fail.
 *
 * @throws `statement_not_allowed`
 */
export function checkReservedUnchanged(tokens: SqlTokens, head: StatementHead): void {
  if (!MAY_NAME_RESERVED.test(tokens.sql)) return
  const readFrom = SCHEMA_VERBS.has(head.verb) ? viewBodyIndex(tokens, head) : 0
  for (let index = 0; tokens.at(index) !== undefined; index++) {
    if (index < readFrom && isReservedName(tokens, head, index)) throw reservedChange()
    const target = targetIndex(tokens, index)
    if (target !== undefined && nameOf(tokens.at(target))?.startsWith(RESERVED_PREFIX)) throw reservedChange()
  }
}

function isReservedName(tokens: SqlTokens, head: StatementHead, index: number): boolean {
  const isNamed = nameOf(tokens.at(index))?.startsWith(RESERVED_PREFIX) === true
  return isNamed && !isValue(tokens, head, index)
}

/** Where the SELECT of a CREATE VIEW begins; of any other statement, behind its end. */
function viewBodyIndex(tokens: SqlTokens, { verb, verbIndex }: StatementHead): number {
  const isView = tokens.is(verbIndex + 1, 'VIEW') || tokens.is(verbIndex + 2, 'VIEW')
  if (verb !== 'CREATE' || !isView) return Number.POSITIVE_INFINITY
  let index = verbIndex
  while (tokens.at(index) !== undefined && !tokens.is(index, 'AS')) index++
  return index
}

function reservedChange(): CellError {
  return notAllowed(
    'Tables that start with _cell are the engine’s own: they can be read, but not changed. Change entries through the KV API.',
  )
}

/** True for a '…' literal that can't be a name. In a PRAGMA, `= 'x'` names a table. */
function isValue(tokens: SqlTokens, head: StatementHead, index: number): boolean {
  if (tokens.at(index)?.kind !== 'string' || head.verb === 'PRAGMA') return false
  const before = tokens.at(index - 1)
  return before !== undefined && BEFORE_VALUE.has(asciiUpper(before.text)) && !tokens.is(index + 1, '.')
}

function isBareWord({ tokens, index }: Place): boolean {
  return tokens.at(index)?.kind === 'word'
}

function reservedName(tokens: SqlTokens, index: number): CellError {
  return notAllowed(
    tokens.at(index)?.kind === 'string'
      ? "A '…' text that starts with _cell could act as a name here. Bind it as a parameter instead."
      : 'Names that start with _cell are reserved. Choose another name; the KV entries are the view cell_kv.',
  )
}

function checkPragmaFunction(name: string): void {
  const pragma = name.slice(PRAGMA_PREFIX.length)
  if (isAllowedPragmaFunction(pragma)) return
  throw notAllowed(
    'Names that start with pragma_ are SQLite functions, and this one is not allowed here. Choose another name.',
  )
}

/** The word as a schema name: before a dot, or alone after ANALYZE, which would make TEMP tables. */
function checkTempSchema(place: Place): void {
  const { tokens, head, index } = place
  const isMaintained = MAINTENANCE_VERBS.has(head.verb) && index === head.verbIndex + 1
  if (isMaintained || tokens.is(index + 1, '.')) refuseTempSchema()
}

function refuseTempSchema(): never {
  throw notAllowed(
    'TEMP objects are not available: a connection is shared. Use an ordinary table, and another alias than temp.',
  )
}

/** The engine's view is in the TEMP schema: a trigger on it, or its statistics, would be TEMP objects too. */
function checkKvView({ head }: Place): void {
  if (MAINTENANCE_VERBS.has(head.verb))
    throw notAllowed('cell_kv is a view: it can not be analyzed or reindexed.')
  if (!SCHEMA_VERBS.has(head.verb)) return
  throw notAllowed(
    'cell_kv is a read-only view of the KV entries, and no schema object can have its name or use it. ' +
      'Change entries through the KV API; copy them with INSERT INTO … SELECT … FROM cell_kv.',
  )
}

/** Conflict clauses and RAISE() with ROLLBACK would end the transaction that other operations share. */
function checkRollback(place: Place): void {
  if (!isBareWord(place)) return
  throw notAllowed(
    'ROLLBACK is not allowed. Use ABORT or FAIL instead; quote it if it is a name: "rollback".',
  )
}

function checkInto(place: Place): void {
  const { tokens, index } = place
  checkTarget(place)
  if (isBareWord(place)) checkFullTextCommand(tokens, targetAfter(tokens, index))
}

function checkTarget({ tokens, index }: Place): void {
  const at = targetIndex(tokens, index)
  const target = at === undefined ? undefined : nameOf(tokens.at(at))
  const mend = target === undefined ? undefined : READ_ONLY.get(target)
  if (mend !== undefined) throw notAllowed(`${target} can't be written. ${mend}`)
}

/** Of INSERT INTO, UPDATE [OR …] and DELETE FROM: where the table's name stands, behind its schema if it has one. */
function targetIndex(tokens: SqlTokens, index: number): number | undefined {
  const name = firstNameIndex(tokens, index)
  if (name === undefined) return undefined
  return tokens.is(name + 1, '.') ? name + 2 : name
}

function firstNameIndex(tokens: SqlTokens, index: number): number | undefined {
  if (tokens.is(index, 'INTO')) return index + 1
  if (tokens.is(index, 'UPDATE')) return tokens.is(index + 1, 'OR') ? index + 3 : index + 1
  return tokens.is(index, 'DELETE') && tokens.is(index + 1, 'FROM') ? index + 2 : undefined
}

function checkCall({ tokens, index }: Place, mend: string): void {
  const token = tokens.at(index)
  if (token?.kind === 'string' || !tokens.is(index + 1, '(')) return
  throw notAllowed(`The function ${nameOf(token)}() is not allowed. ${mend}`)
}

function notAllowed(message: string): CellError {
  return new CellError('statement_not_allowed', message)
}
