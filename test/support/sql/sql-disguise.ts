import type { Random } from '../random.ts'

const BLANKS = [
  ' ',
  '  ',
  '\t',
  '\n',
  '\f',
  '\r\n',
  ' \v',
  '/**/',
  '/* ; */',
  '/*/ */',
  "/*'*/",
  '/*"--*/',
  '--\n',
  '-- SELECT \n',
  "--'\n\v",
  '\uFEFF',
  ' \uFEFF ',
]
const STARTS = ['', '', '', ';', ';;', ' ; ', '\uFEFF', '--x\n;', '/*x*/', '\uFEFF;\uFEFF']
const ENDS = ['', '', '', ';', ' ;;', '--', '/*x', '\0', '\0 x', '; --x', ' /*x*/ ;']
const NAME = /^[a-z_][a-z0-9_]*$/

/**
 * The same statement in other clothes: letter case, blanks, comments, the quotes of names, what stands before and
 * behind. `sql` has its tokens parted by single blanks, keywords in upper and names in lower case.
 */
export function disguise(sql: string, random: Random): string {
  const tokens = sql.split(' ')
  let text = random.pick(STARTS)
  for (const [i, token] of tokens.entries()) {
    text += dress(token, tokens[i + 1], random) + blank(token, tokens[i + 1] ?? '', random)
  }
  return text + random.pick(ENDS)
}

function dress(token: string, next: string | undefined, random: Random): string {
  if (!NAME.test(token)) return /^[A-Z]+$/.test(token) ? anyCase(token, random) : token
  const name = anyCase(token, random)
  // Behind a string no parameter list can stand, so that would not be the same statement.
  const quotes = next === '(' ? ['', '"', '[', '`'] : ['', '', '"', '[', '`', "'"]
  const quote = random.pick(quotes)
  return quote + name + (quote === '[' ? ']' : quote)
}

function anyCase(text: string, random: Random): string {
  if (random.chance(0.5)) return text
  return [...text]
    .map((letter) => (random.chance(0.5) ? letter.toUpperCase() : letter.toLowerCase()))
    .join('')
}

function blank(before: string, after: string, random: Random): string {
  const canTouch = !/\w$/.test(before) && !/^\w/.test(after)
  if (canTouch && before !== '-' && random.chance(0.5)) return ''
  let text = random.pick(BLANKS)
  while (random.chance(0.2)) text += random.pick(BLANKS)
  // A byte order mark behind a word would be part of it, and `-` in front of `--` part of the comment.
  const runsTogether =
    (/\w$/.test(before) && text.startsWith('\uFEFF')) || (before === '-' && text.startsWith('-'))
  return runsTogether ? ` ${text}` : text
}

/** Puts a statement inside another one, or in front or behind of it. What comes out need not be valid. */
export function wrap(sql: string, random: Random): string {
  const n = random.below(1_000)
  return random.pick([
    `EXPLAIN ${sql}`,
    `EXPLAIN QUERY PLAN ${sql}`,
    `EXPLAIN EXPLAIN ${sql}`,
    `WITH x AS ( SELECT 1 ) ${sql}`,
    `WITH RECURSIVE x ( n ) AS NOT MATERIALIZED ( SELECT 1 ) , y AS ( SELECT 2 ) ${sql}`,
    `WITH x AS ( ${sql} ) SELECT * FROM x`,
    `EXPLAIN WITH x AS ( SELECT 1 ) ${sql}`,
    `CREATE TRIGGER tr${n} AFTER INSERT ON t BEGIN ${sql} ; END`,
    `CREATE TRIGGER IF NOT EXISTS main . tr${n} BEFORE UPDATE OF b ON t WHEN 1 BEGIN SELECT 1 ; ${sql} ; END`,
    `CREATE VIEW v${n} AS ${sql}`,
    `CREATE TABLE c${n} AS ${sql}`,
    `INSERT INTO t ( b ) ${sql}`,
    `SELECT * FROM ( ${sql} )`,
    `SELECT 1 WHERE EXISTS ( ${sql} )`,
    `SELECT 1 ; ${sql}`,
    `${sql} ; SELECT 1`,
    `${sql} RETURNING *`,
    `( ${sql} )`,
  ])
}

/** Drops, doubles, swaps, replaces and inserts tokens. */
export function mutate(sql: string, vocabulary: readonly string[], random: Random): string {
  const tokens = sql.split(' ')
  for (let steps = 1 + random.below(3); steps > 0; steps--) {
    const at = random.below(tokens.length + 1)
    const other = random.below(tokens.length + 1)
    switch (random.below(5)) {
      case 0:
        tokens.splice(at, 1)
        break
      case 1:
        tokens.splice(at, 0, tokens[other] ?? ';')
        break
      case 2:
        tokens.splice(at, 1, random.pick(vocabulary))
        break
      case 3:
        tokens.splice(at, 0, random.pick(vocabulary))
        break
      default:
        ;[tokens[at], tokens[other]] = [tokens[other] ?? ';', tokens[at] ?? ';']
    }
  }
  return tokens.join(' ')
}
