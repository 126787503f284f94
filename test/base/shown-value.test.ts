import { expect, test } from 'vitest'
import { shownValue } from '../../src/base/options/shown-value.ts'

test.each([
  [undefined, 'undefined'],
  [null, 'null'],
  ['7days', '"7days"'],
  ['x'.repeat(99), `"${'x'.repeat(64)}"`],
  [Number.NaN, 'NaN'],
  [7n, '7'],
  [new Date(0), 'a Date'],
  [new Map(), 'a Map'],
  [[1], 'a list'],
  [{ secret: 1 }, 'a plain object'],
  [Object.create(null), 'a plain object'],
  [() => {}, 'a function'],
  [Symbol('x'), 'a symbol'],
])('a message shows %o as %s', (value, shown) => {
  expect(shownValue(value)).toBe(shown)
})
