import { expect, test } from 'vitest'
import type { ResultLimits } from '../../../src/base/options/limits.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'
import { thrownBy } from '../../support/thrown.ts'

const NUMBERS = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n'

function withLimits(limits: Partial<ResultLimits>): { limits: ResultLimits } {
  return { limits: { rowsMax: 1_000, bytesMax: 1_000_000, ...limits } }
}

test('without limits all rows are taken', () => {
  expect(openTestDatabase().sql(NUMBERS, [20_000]).rows).toHaveLength(20_000)
})

test('a result of as many rows as the limit is taken, and one more is too large', () => {
  const database = openTestDatabase()
  expect(database.sql(NUMBERS, [5], withLimits({ rowsMax: 5 })).rows).toHaveLength(5)
  expect(thrownBy(() => database.sql(NUMBERS, [6], withLimits({ rowsMax: 5 })))).toMatchObject({
    code: 'result_too_large',
    details: { limit: 5 },
  })
})

test('bytes are those of texts in UTF-8 and of blobs, and eight for each other value', () => {
  const database = openTestDatabase()
  const sql = "SELECT 'ééééé' AS text, zeroblob(70) AS blob, 1 AS one, NULL AS none, 0.5 AS half"
  const bytes = 10 + 70 + 8 + 8 + 8
  expect(database.sql(sql, [], withLimits({ bytesMax: bytes })).rows).toHaveLength(1)
  expect(thrownBy(() => database.sql(sql, [], withLimits({ bytesMax: bytes - 1 })))).toMatchObject({
    code: 'result_too_large',
    details: { limit: bytes - 1 },
  })
})

const CASES: [what: string, columns: string, bytes: number][] = [
  ['an empty text is not free', "''", 8],
  ['a short text counts eight', "'abc'", 8],
  ['the largest exact number counts eight', '9007199254740991', 8],
  ['an integer beyond it is a typed value in JSON', '9007199254740992', 24],
  ['so is a negative one', '-9223372036854775808', 24],
  ['an empty blob is an object', "x''", 64],
  [
    'a control character takes six bytes in JSON, and counts half of them',
    "replace(hex(zeroblob(50)), '0', char(1))",
    300,
  ],
  ['quotes, newlines and tabs count one', `replace(hex(zeroblob(50)), '0000', '"' || char(92, 9, 10))`, 100],
  ['a few control characters count one', "char(27) || '[32mokay' || char(27) || '[0m of a terminal'", 27],
]

test.each(CASES)('%s', (_what, columns, bytes) => {
  const database = openTestDatabase()
  const sql = `SELECT ${columns}`
  expect(database.sql(sql, [], withLimits({ bytesMax: bytes })).rows).toHaveLength(1)
  expect(thrownBy(() => database.sql(sql, [], withLimits({ bytesMax: bytes - 1 }))).code).toBe(
    'result_too_large',
  )
})

test('the rest of a result that is too large is not even read', () => {
  const database = openTestDatabase()
  expect(thrownBy(() => database.sql(NUMBERS, [10 ** 15], withLimits({ rowsMax: 3 }))).code).toBe(
    'result_too_large',
  )
})

test('a change whose RETURNING is too large is undone', () => {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (a)')
  database.sql('INSERT INTO t VALUES (1), (2), (3)')
  const returning = 'UPDATE t SET a = a + 10 RETURNING a'
  expect(thrownBy(() => database.sql(returning, [], withLimits({ rowsMax: 2 }))).code).toBe(
    'result_too_large',
  )
  expect(database.sql('SELECT sum(a) AS sum FROM t').rows).toEqual([{ sum: 6 }])
  expect(database.sql(returning, [], withLimits({ rowsMax: 3 })).changes).toBe(3)
})

test('inside a transaction only that change is undone', () => {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (a)')
  database.transaction(() => {
    database.sql('INSERT INTO t VALUES (1), (2)')
    const deletion = () => database.sql('DELETE FROM t RETURNING a', [], withLimits({ rowsMax: 1 }))
    expect(thrownBy(deletion).code).toBe('result_too_large')
    database.sql('INSERT INTO t VALUES (3)')
  })
  expect(database.sql('SELECT sum(a) AS sum FROM t').rows).toEqual([{ sum: 6 }])
})
