import { SqlTokens } from './sql-lexer.ts'
import { asciiUpper } from './sql-token.ts'

/** Every word that can start a statement in SQLite's grammar. */
const FIRST_WORDS = [
  'SELECT',
  'VALUES',
  'WITH',
  'INSERT',
  'REPLACE',
  'UPDATE',
  'DELETE',
  'CREATE',
  'DROP',
  'ALTER',
  'ANALYZE',
  'REINDEX',
  'EXPLAIN',
  'PRAGMA',
  'BEGIN',
  'COMMIT',
  'END',
  'ROLLBACK',
  'SAVEPOINT',
  'RELEASE',
  'ATTACH',
  'DETACH',
  'VACUUM',
] as const

/**
 * What a statement does. `WITH` only where what follows the common table expressions is no statement, `UNKNOWN` where the
 * text starts with something else than a statement's word: SQLite refuses both. `BLANK` is a text without a statement.
 */
export type StatementVerb = (typeof FIRST_WORDS)[number] | 'UNKNOWN' | 'BLANK'

export interface StatementShape {
  /** For WITH the verb of the statement behind it, for EXPLAIN always `EXPLAIN`. */
  verb: StatementVerb
  explain: boolean
}

/** Where in a text its first statement's verb stands. */
export interface StatementHead {
  shape: StatementShape
  /** The verb of what EXPLAIN explains; the shape's own verb everywhere else. */
  verb: StatementVerb
  /** Index of the word that {@link verb} was read from. */
  verbIndex: number
}

const VERBS: ReadonlyMap<string, StatementVerb> = new Map(FIRST_WORDS.map((word) => [word, word]))
const AFTER_WITH: ReadonlySet<StatementVerb> = new Set([
  'SELECT',
  'VALUES',
  'INSERT',
  'REPLACE',
  'UPDATE',
  'DELETE',
])

/** What a text's first statement is, judged by its words alone: nothing is refused and nothing validated. */
export function statementVerb(sql: string): StatementShape {
  return readHead(new SqlTokens(sql)).shape
}

/** True for a text of nothing but blanks, comments and semicolons. */
export function isBlank(shape: StatementShape): boolean {
  return shape.verb === 'BLANK'
}

export function readHead(tokens: SqlTokens): StatementHead {
  let first = 0
  while (tokens.is(first, ';')) first++
  const explain = tokens.is(first, 'EXPLAIN')
  const start = explain ? skipExplain(tokens, first) : first
  const isWith = tokens.is(start, 'WITH')
  const behindWith = isWith ? skipWith(tokens, start) : start
  const verb = verbAt(tokens, behindWith)
  if (isWith && !AFTER_WITH.has(verb)) return head('WITH', explain, start)
  return head(verb, explain, behindWith)
}

function head(verb: StatementVerb, explain: boolean, verbIndex: number): StatementHead {
  return { shape: { verb: explain ? 'EXPLAIN' : verb, explain }, verb, verbIndex }
}

function verbAt(tokens: SqlTokens, index: number): StatementVerb {
  const token = tokens.at(index)
  if (token === undefined) return 'BLANK'
  if (token.kind !== 'word') return 'UNKNOWN'
  return VERBS.get(asciiUpper(token.text)) ?? 'UNKNOWN'
}

/** The index behind EXPLAIN [QUERY PLAN]. */
function skipExplain(tokens: SqlTokens, index: number): number {
  return tokens.is(index + 1, 'QUERY') && tokens.is(index + 2, 'PLAN') ? index + 3 : index + 1
}

/**
 * The index behind `WITH [RECURSIVE] name [(columns)] AS [[NOT] MATERIALIZED] (select), …`. Of a text that is shaped
 * otherwise, which SQLite refuses, some index.
 */
function skipWith(tokens: SqlTokens, index: number): number {
  let at = tokens.is(index + 1, 'RECURSIVE') ? index + 1 : index
  do {
    at = skipGroup(tokens, at + 2)
    if (tokens.is(at, 'AS')) at++
    if (tokens.is(at, 'NOT')) at++
    if (tokens.is(at, 'MATERIALIZED')) at++
    at = skipGroup(tokens, at)
  } while (tokens.is(at, ','))
  return at
}

/** The index behind the parentheses that open here, or this index where none do. */
function skipGroup(tokens: SqlTokens, index: number): number {
  if (!tokens.is(index, '(')) return index
  let depth = 0
  let at = index
  do {
    if (tokens.is(at, '(')) depth++
    else if (tokens.is(at, ')')) depth--
    at++
  } while (depth > 0 && tokens.at(at) !== undefined)
  return at
}
