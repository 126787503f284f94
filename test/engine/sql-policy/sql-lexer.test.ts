import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { SqlTokens } from '../../../src/engine/sql-policy/sql-lexer.ts'
import type { SqlToken } from '../../../src/engine/sql-policy/sql-token.ts'
import { countOf } from '../../support/counts.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'

const STATEMENTS = countOf('CELLSTORE_FUZZ_COUNT')

function tokensOf(sql: string): SqlToken[] {
  const tokens = new SqlTokens(sql)
  const list: SqlToken[] = []
  for (let token = tokens.at(0); token !== undefined; token = tokens.at(list.length)) list.push(token)
  return list
}

/** `kind:text` of every token, parted by blanks; for texts whose tokens hold no blank. */
function shown(sql: string): string {
  return tokensOf(sql)
    .map(({ kind, text }) => `${kind}:${text}`)
    .join(' ')
}

describe('blanks and comments', () => {
  test.each([
    ['space, tab, newline, form feed, return', ' \t\n\f\rA', 'word:A'],
    ['a vertical tab behind another blank', ' \v\vA', 'word:A'],
    ['a vertical tab by itself', '\vA', 'illegal:\v word:A'],
    ['a byte order mark', '\uFEFFA', 'word:A'],
    ['a byte order mark inside a word', 'A\uFEFFB', 'word:A\uFEFFB'],
    ['a no-break space, which is a letter to SQLite', 'A\u00A0B', 'word:A\u00A0B'],
    ['a line comment up to the newline', '--x\rB\nA', 'word:A'],
    ['a vertical tab behind the newline of a line comment', '--x\n\vA', 'word:A'],
    ['an unterminated line comment', 'A--x', 'word:A'],
    ['a block comment', '/*x*/A/**/B', 'word:A word:B'],
    ['a block comment does not nest', '/*/*x*/A', 'word:A'],
    ['a block comment that begins with /*/', '/*/A*/B', 'word:B'],
    ['an unterminated block comment', 'A/*x', 'word:A'],
    ['a block comment mark that ends the text', 'A/*', 'word:A operator:/ operator:*'],
    ['a NUL ends the text', 'A\0B', 'word:A'],
    ['a NUL ends a comment', '--\0\nA', ''],
    ['nothing', '', ''],
  ])('%s', (_what, sql, expected) => {
    expect(shown(sql)).toBe(expected)
  })
})

describe('names and strings', () => {
  test.each([
    ['quoted with each mark', '"a"[b]`c`', 'quoted:"a" quoted:[b] quoted:`c`'],
    ['doubled quotes', `"a""b"'c''d'`, `quoted:"a""b" string:'c''d'`],
    ['two strings', `'a' 'b'`, `string:'a' string:'b'`],
    ['brackets have no escape', '[a]]', 'quoted:[a] illegal:]'],
    ['empty ones', `""''[]`, `quoted:"" string:'' quoted:[]`],
    ['unterminated string', `'a''`, `illegal:'a''`],
    ['unterminated brackets', '[a', 'illegal:[a'],
    ['a NUL in a string', `'a\0'`, `illegal:'a`],
    ['a word with digits, dollars and letters of any script', 'a1$é_ü', 'word:a1$é_ü'],
    ['blobs', `x'0aF0'X''`, `blob:x'0aF0' blob:X''`],
    ['a blob with an odd digit', `x'0'a`, `illegal:x'0' word:a`],
    ['a blob with a wrong digit runs to the next quote', `x'0g''a`, `illegal:x'0g' illegal:'a`],
    ['an unterminated blob', `x'00`, `illegal:x'00`],
    ['an x without a quote', `x "x'"`, `word:x quoted:"x'"`],
  ])('%s', (_what, sql, expected) => {
    expect(shown(sql)).toBe(expected)
  })
})

describe('numbers, variables and operators', () => {
  test.each([
    [
      'numbers',
      '1 1.5 .5 1. 1e5 1.e-5 .5E+5 0x1F',
      'number:1 number:1.5 number:.5 number:1. number:1e5 number:1.e-5 number:.5E+5 number:0x1F',
    ],
    ['digit separators', '1_000 0x_f 0xf_f', 'number:1_000 illegal:0x_f number:0xf_f'],
    ['numbers with letters', '1a 0x 1e 1e+', 'illegal:1a illegal:0x illegal:1e illegal:1e operator:+'],
    ['variables', '?1?:a@b $ #1', 'variable:?1 variable:? variable::a variable:@b illegal:$ variable:#1'],
    ['marks without a name', ': $ @ #', 'illegal:: illegal:$ illegal:@ illegal:#'],
    [
      'no Tcl variables in this build',
      '$a::b(c)',
      'variable:$a illegal:: variable::b operator:( word:c operator:)',
    ],
    [
      'operators',
      'a->b->>c||d<<e',
      'word:a operator:-> word:b operator:->> word:c operator:|| word:d operator:<< word:e',
    ],
    [
      'comparisons',
      '<=<>>=>>==!==',
      'operator:<= operator:<> operator:>= operator:>> operator:== operator:!= operator:=',
    ],
    [
      'single ones',
      '(),;.+*/%&|~-=<>',
      'operator:( operator:) operator:, operator:; operator:. operator:+ operator:* operator:/ operator:% operator:& operator:| operator:~ operator:- operator:= operator:<>',
    ],
    [
      'what SQLite does not know',
      '!\\^{}\u0001\u007F',
      'illegal:! illegal:\\ illegal:^ illegal:{ illegal:} illegal:\u0001 illegal:\u007F',
    ],
  ])('%s', (_what, sql, expected) => {
    expect(shown(sql)).toBe(expected)
  })

  test('is() knows words in any ASCII letter case, and operators', () => {
    const tokens = new SqlTokens('sElEcT "SELECT" = bac\u212A')
    expect([tokens.is(0, 'SELECT'), tokens.is(1, 'SELECT'), tokens.is(2, '='), tokens.is(3, 'BACK')]).toEqual(
      [true, false, true, false],
    )
    expect(tokens.is(4, '=')).toBe(false)
  })
})

describe("agreement with SQLite's own tokenizer", () => {
  const PIECES = [
    ...' \t\n\v\f\r\0\uFEFF\u00A0é😀\u2028',
    ...'\'"`[]();,.+-*/%&|<>=!~?$@:#\\^{}',
    ...'aAxXeE_09',
    "x'",
    "X'0a'",
    '--',
    '/*',
    '*/',
    '->',
    '->>',
    '||',
    '<<',
    '0x',
    '1e5',
    '1_0',
    '.5',
    '::',
    '?1',
    "''",
    '""',
    'SELECT',
    'temp',
    '\u0001',
  ]
  const NOTHING_LEFT = Symbol()

  /**
   * The first token SQLite sees. Behind `REINDEX a.b` its grammar takes only the end, so that the error names whatever
   * token stands there. The comment keeps a vertical tab at the start from following a blank.
   */
  function firstTokenOf(
    database: Database.Database,
    sql: string,
  ): { text: string; legal: boolean } | typeof NOTHING_LEFT {
    try {
      database.prepare(`REINDEX a.b/**/${sql}`)
    } catch (error) {
      const { message } = error as Error
      if (message === 'unknown database a') return NOTHING_LEFT
      const near = /^near "(.*)": syntax error$/s.exec(message)
      if (near?.[1] !== undefined) return { text: near[1], legal: true }
      const unrecognized = /^unrecognized token: "(.*)"$/s.exec(message)
      if (unrecognized?.[1] !== undefined) return { text: unrecognized[1], legal: false }
      throw error
    }
    throw new Error('SQLite prepared what it should not')
  }

  function soup(random: Random): string {
    let sql = ''
    for (let pieces = 1 + random.below(12); pieces > 0; pieces--) sql += random.pick(PIECES)
    return sql
  }

  test('every token of random texts begins, ends and is legal or not as SQLite says', () => {
    const database = new Database(':memory:')
    const random = seededRandom()
    let compared = 0
    for (let round = STATEMENTS; round > 0; round--) {
      const sql = soup(random)
      let from = 0
      for (const token of [...tokensOf(sql), undefined]) {
        const isEnd = token === undefined || token.text === ';'
        const actual = isEnd ? NOTHING_LEFT : { text: token.text, legal: token.kind !== 'illegal' }
        const rest = sql.slice(from)
        expect(actual, JSON.stringify({ sql, rest })).toEqual(firstTokenOf(database, rest))
        if (token !== undefined) {
          expect(sql.startsWith(token.text, token.start)).toBe(true)
          from = token.start + token.text.length
        }
        compared++
      }
    }
    console.info(`sql-lexer: ${compared} tokens compared`)
  })
})
