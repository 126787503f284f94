import { SqlTokens } from './sql-lexer.ts'
import type { SqlToken } from './sql-token.ts'

const SHAPE_LENGTH_MAX = 300
/** A longer name says nothing in a log, and could be made to hold anything. */
const NAME_LENGTH_MAX = 64
const PLAIN_NAME = /^["`[]?[A-Za-z_][A-Za-z0-9_$]*["`\]]?$/

/**
 * A statement as a log may show it: with `?` for each literal, without comments, and of bounded length. Names stay, so that
 * a reader recognizes the statement, unless they are not plain. In this build of SQLite "…" is a name and never a text.
 */
export function sqlShape(sql: string): string {
  const tokens = new SqlTokens(sql)
  let shape = ''
  let before: string | undefined
  for (let token = tokens.next(); token !== undefined; token = tokens.next()) {
    const text = shown(token)
    shape += gap(before, text) + text
    before = text
    if (shape.length > SHAPE_LENGTH_MAX) return `${shape.slice(0, SHAPE_LENGTH_MAX)}…`
  }
  return shape
}

function shown({ kind, text }: SqlToken): string {
  switch (kind) {
    case 'operator':
      return text
    case 'word':
    case 'quoted':
      return text.length <= NAME_LENGTH_MAX && PLAIN_NAME.test(text) ? text : '"…"'
    // Also parameters: their names are of no use without their values.
    default:
      return '?'
  }
}

const CLINGS_LEFT = new Set([',', ')', '.', ';'])
const CLINGS_RIGHT = new Set(['(', '.'])

function gap(before: string | undefined, text: string): string {
  if (before === undefined || CLINGS_LEFT.has(text) || CLINGS_RIGHT.has(before)) return ''
  return ' '
}
