import { describe, expect, test } from 'vitest'
import { formatBytes, formatTable } from '../../src/cli/terminal/output.ts'

describe('a table', () => {
  test('is as wide as its widest text, and ends in no spaces', () => {
    const table = formatTable(
      ['ID', 'NAME'],
      [
        ['1', 'acme'],
        ['22222', ''],
      ],
    )
    expect(table).toBe('ID     NAME\n1      acme\n22222')
  })

  test("shows what a terminal would obey: a tenant's name moves no cursor", () => {
    const table = formatTable(['NAME'], [['\u001b[2Jgone\r\nID \u009b31m\u2028']])
    expect(table).toBe('NAME\n\\x1b[2Jgone\\x0d\\x0aID \\x9b31m\\u2028')
  })
})

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_024, '1.0 KiB'],
  [10_240, '10 KiB'],
  [1_572_864, '1.5 MiB'],
  [3 * 1_024 ** 4, '3.0 TiB'],
])('%d bytes are shown as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text)
})
