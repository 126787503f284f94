import { describe, expect, test } from 'vitest'
import { cutToWidth, displayWidth, formatTable, padToWidth } from '../../src/cli/terminal/output.ts'

test.each([
  ['acme', 4],
  ['', 0],
  ['Zürich', 6],
  ['Zu\u0308rich', 6],
  ['東京', 4],
  ['한국', 4],
  ['🚀', 2],
  ['👩‍👩‍👧', 2],
])('%j takes %d columns', (text, width) => {
  expect(displayWidth(text)).toBe(width)
  expect(displayWidth(padToWidth(text, 10))).toBe(10)
})

test('columns stand below each other, whatever the characters', () => {
  const table = formatTable(
    ['CITY', 'N'],
    [
      ['東京', '1'],
      ['Zu\u0308rich', '2'],
    ],
  )
  expect(table).toBe('CITY    N\n東京    1\nZu\u0308rich  2')
})

describe('text that is too wide', () => {
  test.each([
    ['abcdef', 6, 'abcdef'],
    ['abcdef', 5, 'abcd…'],
    ['東京都', 6, '東京都'],
    ['東京都', 5, '東京…'],
    ['東京都', 4, '東…'],
    ['👩‍👩‍👧👩‍👩‍👧', 3, '👩‍👩‍👧…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
  ])('%j in %d columns is %j', (text, widthMax, cut) => {
    expect(cutToWidth(text, widthMax)).toBe(cut)
    expect(displayWidth(cut)).toBeLessThanOrEqual(widthMax)
  })

  test('is not measured to its end', () => {
    expect(cutToWidth('東'.repeat(1_000_000), 80)).toBe(`${'東'.repeat(39)}…`)
  })
})
