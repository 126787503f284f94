import { expect, test } from 'vitest'
import { cutPage, decodeCursor, encodeCursor, pageLimit } from '../../src/base/paging.ts'
import { codeOf } from '../support/thrown.ts'

const any = (position: string) => position

test('a page has 100 entries unless the caller says otherwise, and never more than the maximum', () => {
  expect(pageLimit(undefined, 1_000)).toBe(100)
  expect(pageLimit(undefined, 1_000, 20)).toBe(20)
  expect(pageLimit(undefined, 50)).toBe(50)
  expect(pageLimit(1, 50)).toBe(1)
  expect(pageLimit(50, 50)).toBe(50)
})

test.each([0, -1, 51, 1.5, Number.NaN, '7' as never, null as never])('a limit of %j is refused', (limit) => {
  expect(() => pageLimit(limit, 50)).toThrow('limit is a whole number from 1 to 50 (limits.pageMax).')
})

test.each(['k', 'ключ 🔑', '\u0001', '9007199254740991'])('a cursor for %j leads back to it', (position) => {
  expect(decodeCursor(encodeCursor(position), any)).toBe(position)
})

test.each(['', '=', 'a', `${encodeCursor('k')}=`, '_w', 7 as never, undefined as never])(
  '%j is no cursor',
  (cursor) => {
    expect(codeOf(() => decodeCursor(cursor, (position) => position || undefined))).toBe('invalid_request')
  },
)

test('a position that the listing can not have is refused', () => {
  expect(codeOf(() => decodeCursor(encodeCursor('k'), () => undefined))).toBe('invalid_request')
})

test('a page has a cursor while more follows', () => {
  expect(cutPage(['a', 'b', 'c'], 2, encodeCursor)).toEqual({
    page: ['a', 'b'],
    nextCursor: encodeCursor('b'),
  })
  expect(cutPage(['a', 'b'], 2, encodeCursor)).toEqual({ page: ['a', 'b'], nextCursor: null })
  expect(cutPage([], 2, encodeCursor)).toEqual({ page: [], nextCursor: null })
})
