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
 * What a statement does. It is `WITH` only where no statement follows the common table expressions, and `UNKNOWN` where
 * the text starts with another word: SQLite refuses both. `BLANK` is a text without a statement.
 */
export type StatementVerb = (typeof FIRST_WORDS)[number] | 'UNKNOWN' | 'BLANK'

/** How a text's first statement begins, judged by its words alone: nothing is refused and nothing validated. */
export interface StatementHead {
  /** EXPLAIN stands in front: SQLite lists the steps of the statement and runs none of them. */
  explain: boolean
  /** Behind EXPLAIN and behind the common table expressions of WITH. */
  verb: StatementVerb
  /** Index of the token that {@link verb} was read from. */
  verbIndex: number
}

/** Tokens that are kept from the head for preparing. Those of a long WITH would take fifty times the text's memory. */
const TOKENS_KEPT_MAX = 32

/**
 * An SQL text on its way from routing through the policy to `prepare`, which all need the head of its first statement:
 * it is read once, when the first of them asks.
 */
export class SqlStatement {
  readonly sql: string
  #head: StatementHead | undefined
  #tokens: SqlTokens | undefined

  constructor(sql: string) {
    this.sql = sql
  }

  get head(): StatementHead {
    if (this.#head === undefined) {
      const tokens = new SqlTokens(this.sql)
      this.#head = readHead(tokens)
      if (tokens.count <= TOKENS_KEPT_MAX) this.#tokens = tokens
    }
    return this.#head
  }

  /** Hands its tokens over and keeps none: the statement can live much longer than the caller needs them. */
  takeTokens(): SqlTokens {
    const tokens = this.#tokens ?? new SqlTokens(this.sql)
    this.#tokens = undefined
    this.#head ??= readHead(tokens)
    return tokens
  }
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

/** A statement, or the text of one that nobody has read yet. */
export type SqlText = string | SqlStatement

function readHead(tokens: SqlTokens): StatementHead {
  let first = 0
  while (tokens.is(first, ';')) first++
  const explain = tokens.is(first, 'EXPLAIN')
  const start = explain ? skipExplain(tokens, first) : first
  const isWith = tokens.is(start, 'WITH')
  const behindWith = isWith ? skipWith(tokens, start) : start
  const verb = verbAt(tokens, behindWith)
  if (isWith && !AFTER_WITH.has(verb)) return { explain, verb: 'WITH', verbIndex: start }
  return { explain, verb, verbIndex: behindWith }
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
export function skipGroup(tokens: SqlTokens, index: number): number {
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
