import { describe, expect, test } from 'vitest'
import { formatResult } from '../../../src/cli/sql/sql-formats.ts'
import type { SqlDocument } from '../../../src/service/json/sql-answers.ts'

const result = (columns: string[], rows: SqlDocument['rows']): SqlDocument => ({
  columns,
  rows,
  row_count: rows.length,
  changes: 0,
  last_insert_rowid: null,
  duration_ms: 0.25,
})
const WRITTEN = { ...result([], []), changes: 2 }

describe('CSV', () => {
  test('has a line of names and one for each row, and quotes what would be taken for more', () => {
    const rows = [
      { a: 1, 'b,c': 'x "y"\nz' },
      { a: 1.5, 'b,c': ' kept ' },
      { a: '9223372036854775807', 'b,c': { type: 'blob' as const, base64: 'AAE=' } },
    ]
    expect(formatResult(result(['a', 'b,c'], rows), 'csv')).toBe(
      `a,"b,c"\n1,"x ""y""\nz"\n1.5," kept "\n9223372036854775807,x'0001'`,
    )
  })

  test('tells NULL from empty text', () => {
    expect(formatResult(result(['a', 'b'], [{ a: null, b: '' }]), 'csv')).toBe('a,b\n,""')
  })

  test('says nothing of a statement without rows, and has the names of no rows', () => {
    expect(formatResult(WRITTEN, 'csv')).toBeUndefined()
    expect(formatResult(result(['a'], []), 'csv')).toBe('a')
  })

  test('moves no cursor on a terminal, and changes nothing in a file', () => {
    const rows = [{ a: '\u001b[2J' }]
    expect(formatResult(result(['a'], rows), 'csv', { isTerminal: true })).toBe('a\n\\x1b[2J')
    expect(formatResult(result(['a'], rows), 'csv')).toBe('a\n\u001b[2J')
  })
})

describe('a table', () => {
  test('shows NULL and blobs as SQL spells them, and counts the rows', () => {
    const rows = [{ a: null, b: { type: 'blob' as const, base64: 'AAE=' } }]
    expect(formatResult(result(['a', 'b'], rows), 'table')).toBe(`a     b\nNULL  x'0001'\n1 row, 0.3 ms`)
    expect(formatResult(WRITTEN, 'table')).toBe('2 rows changed, 0.3 ms')
  })

  test('cuts values over 80 columns, which JSON and CSV do not', () => {
    const long = '東'.repeat(100)
    const wide = result(['a'], [{ a: long }])
    expect(formatResult(wide, 'table')).toContain(`\n${'東'.repeat(39)}…\n`)
    expect(formatResult(wide, 'csv')).toContain(long)
    expect(JSON.parse(formatResult(wide, 'json') ?? '')).toEqual(wide)
  })
})
