import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sqlShape } from '../../../src/engine/sql-policy/sql-shape.ts'
import { SEED } from '../../support/seed.ts'

test.each([
  ["SELECT * FROM users WHERE name = 'Ann' AND age > 41", 'SELECT * FROM users WHERE name = ? AND age > ?'],
  [
    "INSERT INTO t(a,b) VALUES(x'00ff', -1.5e3), (0x1F, NULL)",
    'INSERT INTO t (a, b) VALUES (?, - ?), (?, NULL)',
  ],
  ['select "id" from "users" where "id" = ? limit 10', 'select "id" from "users" where "id" = ? limit ?'],
  ["SELECT 1 -- 'a comment'\n, /* another */ :name, @p1, $x", 'SELECT ?, ?, ?, ?'],
  ["SELECT 'it''s' || 'x'", 'SELECT ? || ?'],
  ["SELECT 'open", 'SELECT ?'],
  ['SELECT "a b", [c d], `e`, "two words"', 'SELECT "…", "…", `e`, "…"'],
  ['SELECT * FROM t WHERE a.b=3', 'SELECT * FROM t WHERE a.b = ?'],
  ['', ''],
])('the shape of %j is %j', (sql, shape) => {
  expect(sqlShape(sql)).toBe(shape)
})

test('a shape is short, however long its statement is', () => {
  expect(sqlShape(`SELECT ${Array.from({ length: 100_000 }, (_, i) => i).join(', ')}`).length).toBeLessThan(
    310,
  )
  expect(sqlShape(`SELECT '${'x'.repeat(1_000_000)}'`)).toBe('SELECT ?')
  expect(sqlShape(`SELECT ${'x'.repeat(1_000)}`)).toBe('SELECT "…"')
})

test('no shape has the text of a literal, whatever it holds', () => {
  const canary = 'c4n4ry'
  const around = fc.string().map((text) => text.replaceAll("'", "''").replaceAll('\0', ''))
  fc.assert(
    fc.property(around, around, (before, after) => {
      expect(sqlShape(`SELECT '${before}${canary}${after}' AS n, 1 FROM t`)).not.toContain(canary)
      expect(sqlShape(`SELECT 1 /* ${canary} */ FROM t -- ${canary}`)).not.toContain(canary)
    }),
    { seed: SEED, numRuns: 300 },
  )
})
