import { expect, test } from 'vitest'
import { RowCursors } from '../../src/base/row-cursor.ts'

const STORE = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'
const cells = new RowCursors(STORE, 'cells')

test('a cursor stands for its row, after a restart too', () => {
  for (const number of [1, 2, 255, 256, 1_000_000, Number.MAX_SAFE_INTEGER])
    expect(new RowCursors(STORE, 'cells').decode(cells.encode(number))).toBe(number)
})

test('cursors do not tell how far apart their rows are: of neighbours they differ in about half of their bits', () => {
  const bits = (number: number) => Buffer.from(cells.encode(number), 'base64url')
  for (let number = 1; number < 50; number++) {
    const [one, other] = [bits(number), bits(number + 1)]
    const differing = one.reduce(
      (sum, byte, i) => sum + (byte ^ (other[i] as number)).toString(2).replaceAll('0', '').length,
      0,
    )
    expect(differing).toBeGreaterThan(30)
    expect(differing).toBeLessThan(98)
  }
})

test.each([
  ['of another listing', new RowCursors(STORE, 'api keys').encode(7)],
  ['of another store', new RowCursors('another', 'cells').encode(7)],
  ['a row number', Buffer.from('7').toString('base64url')],
  ['one that was changed', `${cells.encode(7).slice(0, -2)}AA`],
  ['one with something behind it', `${cells.encode(7)}A`],
  ['an empty text', ''],
  ['no text', 7 as unknown as string],
])('%s is refused', (_, cursor) => {
  expect(() => cells.decode(cursor)).toThrow('cursor is not one that a listing returned.')
})
