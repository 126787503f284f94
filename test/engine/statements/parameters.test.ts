import { describe, expect, test } from 'vitest'
import type { SqlParams, SqlValue } from '../../../src/engine/statements/sql-values.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

/** What SQLite made of a parameter: its type, and its value read back. */
function bound(value: unknown): { type: SqlValue; value: SqlValue } {
  const { rows } = openTestDatabase().sql('SELECT typeof(?1) AS type, ?1 AS value', {
    1: value,
  } as SqlParams)
  return rows[0] as { type: SqlValue; value: SqlValue }
}

describe('positional parameters', () => {
  test('are bound to ? in order', () => {
    const { rows } = openTestDatabase().sql('SELECT ? AS a, ? AS b, ? AS c', ['x', 2, null])
    expect(rows).toEqual([{ a: 'x', b: 2, c: null }])
  })

  test('too few or too many are refused', () => {
    const database = openTestDatabase()
    expect(codeOf(() => database.sql('SELECT ?, ?', [1]))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT ?, ?', [1, 2, 3]))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT ?'))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT 1', [1]))).toBe('param_count_mismatch')
  })

  test('as many as the limit are taken, and one more is refused with the limit', () => {
    const database = openTestDatabase({ limits: { paramsMax: 3 } })
    expect(database.sql('SELECT ?, ?, ?', [1, 2, 3]).rows).toHaveLength(1)
    const error = thrownBy(() => database.sql('SELECT ?, ?, ?, ?', [1, 2, 3, 4]))
    expect(error.code).toBe('invalid_parameter')
    expect(error.details).toMatchObject({ field: 'params', limit: 3 })
  })

  test("SQLite's own ceiling of 32,766 can be used to the last", () => {
    const database = openTestDatabase()
    const values = Array.from({ length: 32_766 }, (_, i) => i)
    const sql = `SELECT 32765 IN (${values.map(() => '?').join()}) AS is_in`
    expect(database.sql(sql, values).rows).toEqual([{ is_in: 1 }])
    expect(codeOf(() => database.sql(sql, [...values, 1]))).toBe('invalid_parameter')
  })

  test('an array with a hole is refused, not bound as NULL', () => {
    const holed: number[] = [1]
    holed[2] = 3
    const error = thrownBy(() => openTestDatabase().sql('SELECT ?, ?, ?', holed))
    expect(error.code).toBe('invalid_parameter')
    expect(error.details.field).toBe('params[1]')
  })
})

describe('named parameters', () => {
  test.each([':a', '@a', '$a'])('%s is bound by its name without the prefix', (placeholder) => {
    const { rows } = openTestDatabase().sql(`SELECT ${placeholder} AS got, ${placeholder} AS again`, {
      a: 'x',
    })
    expect(rows).toEqual([{ got: 'x', again: 'x' }])
  })

  test('?NNN is bound by its number', () => {
    const { rows } = openTestDatabase().sql('SELECT ?2 AS second, ?1 AS first', { 1: 'one', 2: 'two' })
    expect(rows).toEqual([{ second: 'two', first: 'one' }])
  })

  test.each([
    ['?1, ?2', [1, 2], [1, 2]],
    ['?2, ?1', [1, 2], [2, 1]],
    ['?1, ?1', [1], [1, 1]],
    ['?1, ?3', [1, 2, 3], [1, 3]],
    ['?3', [1, 2, 3], [3]],
    ['?, ?1', [1], [1, 1]],
    ['?2, ?', [1, 2, 3], [2, 3]],
    ['?, ?5, ?', [1, 2, 3, 4, 5, 6], [1, 5, 6]],
    ['?001, ?1', [1], [1, 1]],
    ["?1, '?2', /* ?3 */ ?2", [1, 2], [1, '?2', 2]],
    ['?1, ?3', { 1: 1, 3: 3 }, [1, 3]],
    ['?1, ?3', { 1: 1, 2: 2, 3: 3 }, [1, 3]],
    ['?7', { 7: 7 }, [7]],
    ['?001', { 1: 1 }, [1]],
    ['?001', { '001': 1 }, [1]],
    [':a, ?1, ?3', { a: 1, 3: 3 }, [1, 1, 3]],
    ['?2, :a, :a', { a: 1, 2: 2 }, [2, 1, 1]],
  ])('numbers are as SQLite has them: SELECT %s with %j', (list, params, row) => {
    const { rows } = openTestDatabase().sql(`SELECT ${list}`, params as SqlParams, { rowMode: 'array' })
    expect(rows).toEqual([row])
  })

  test.each([
    ['?1, ?3', [1, 2], 'go up to ?3, but 2 parameters were passed'],
    ['?1', [1, 2], 'go up to ?1, but 2 parameters were passed'],
    ['?2', [], 'go up to ?2, but 0 parameters were passed'],
    ['?1, :a', [1, 2], 'called :a: pass an object'],
    ['?1, ?3', { 1: 1 }, 'for ?3 is missing'],
    ['?2, ?', { 2: 1 }, 'without a name or number (?): pass an array'],
  ])('a wrong number of them is told as it is: SELECT %s with %j', (list, params, message) => {
    const error = thrownBy(() => openTestDatabase().sql(`SELECT ${list}`, params as SqlParams))
    expect(error).toMatchObject({ code: 'param_count_mismatch', message: expect.stringContaining(message) })
  })

  test('what only looks like one, where none can stand, is none', () => {
    const database = openTestDatabase()
    database.sql('CREATE VIRTUAL TABLE ft USING fts4(a, ?1)')
    expect(database.sql('SELECT * FROM ft').rows).toEqual([])
  })

  test('a missing one is refused, and so is a list where names are wanted', () => {
    const database = openTestDatabase()
    expect(codeOf(() => database.sql('SELECT :a, :b', { a: 1 }))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT :a', [1]))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT :a'))).toBe('param_count_mismatch')
    expect(codeOf(() => database.sql('SELECT ?', { a: 1 }))).toBe('param_count_mismatch')
  })

  // A record can be passed as it is.
  test.each([':a', '?1'])(
    'members that %s does not name are ignored, and no misspelt name can hide among them',
    (placeholder) => {
      const database = openTestDatabase()
      expect(database.sql(`SELECT ${placeholder} AS got`, { a: 'x', 1: 'x', b: 'y' }).rows).toEqual([
        { got: 'x' },
      ])
      expect(codeOf(() => database.sql(`SELECT ${placeholder}`, { aa: 'x', 11: 'x' }))).toBe(
        'param_count_mismatch',
      )
    },
  )

  test('an empty object is no parameter', () => {
    expect(openTestDatabase().sql('SELECT 1 AS one', {}).rows).toEqual([{ one: 1 }])
  })

  test('one called __proto__ is a parameter like any other', () => {
    const params = JSON.parse('{"__proto__": "x"}') as Record<string, string>
    expect(openTestDatabase().sql('SELECT :__proto__ AS got', params).rows).toEqual([{ got: 'x' }])
  })

  test('what an object inherits is no parameter', () => {
    const inherited = Object.create({ a: 1 }) as Record<string, number>
    expect(codeOf(() => openTestDatabase().sql('SELECT :a', inherited))).toBe('param_count_mismatch')
  })
})

describe('integers', () => {
  test.each([0, -1, 2 ** 31, -(2 ** 31) - 1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER])(
    'the number %s is bound as INTEGER and comes back as the same number',
    (value) => {
      expect(bound(value)).toEqual({ type: 'integer', value })
    },
  )

  test.each([INT64_MIN, INT64_MIN + 1n, -(2n ** 53n), 2n ** 53n, 2n ** 53n + 1n, INT64_MAX - 1n, INT64_MAX])(
    'the bigint %s is exact both ways',
    (value) => {
      expect(bound(value)).toEqual({ type: 'integer', value })
    },
  )

  test.each([1n, -1n, 2n ** 53n - 1n, -(2n ** 53n) + 1n])(
    'the safe bigint %s comes back as a number',
    (value) => {
      expect(bound(value)).toEqual({ type: 'integer', value: Number(value) })
    },
  )

  test.each([INT64_MAX + 1n, INT64_MIN - 1n, 2n ** 64n, 2n ** 200n])(
    '%s does not fit in 64 bits',
    (value) => {
      const error = thrownBy(() => bound(value))
      expect(error.code).toBe('invalid_parameter')
      expect(error.details.field).toBe('params.1')
    },
  )

  test.each([2 ** 53, -(2 ** 53), 2 ** 53 + 2, 2 ** 62, 2 ** 63 - 1024, -(2 ** 63) + 1024, -(2 ** 63)])(
    'the number %s may have been rounded already, and is refused',
    (value) => {
      expect(thrownBy(() => bound(value)).message).toContain('bigint')
    },
  )

  test('a column keeps 64 bits through a table', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (n INTEGER)')
    const values = [INT64_MIN, -(2n ** 53n) - 1n, -1n, 0n, 2n ** 53n + 1n, INT64_MAX]
    for (const value of values) database.sql('INSERT INTO t VALUES (?)', [value])
    const { rows } = database.sql<{ n: number | bigint; text: string }>(
      'SELECT n, CAST(n AS TEXT) AS text FROM t',
    )
    expect(rows.map(({ n }) => BigInt(n))).toEqual(values)
    expect(rows.map(({ text }) => text)).toEqual(values.map(String))
    expect(typeof rows[2]?.n).toBe('number')
  })
})

describe('other values', () => {
  test.each([0.5, -1.25e-300, 1e300, 2 ** 63, -(2 ** 63) - 2048, 2 ** 64, Infinity, -Infinity])(
    'the number %s is bound as REAL',
    (value) => {
      expect(bound(value)).toEqual({ type: 'real', value })
    },
  )

  test.each([0, 1, -7, 2 ** 53, 2 ** 60, 1e300, Infinity])('%s that is said to be a REAL is one', (value) => {
    expect(bound({ type: 'real', value })).toEqual({ type: 'real', value })
  })

  test('minus zero is the integer zero', () => {
    expect(bound(-0)).toEqual({ type: 'integer', value: 0 })
  })

  test('booleans are bound as 1 and 0', () => {
    expect(bound(true)).toEqual({ type: 'integer', value: 1 })
    expect(bound(false)).toEqual({ type: 'integer', value: 0 })
  })

  test('null is NULL', () => {
    expect(bound(null)).toEqual({ type: 'null', value: null })
  })

  test.each(['', 'é', '𝄞', 'a\0b', '￿', 'x'.repeat(100_000)])(
    'text comes back as it went in (%#)',
    (value) => {
      expect(bound(value)).toEqual({ type: 'text', value })
    },
  )

  test('blobs are Uint8Array both ways, also as a view of a larger buffer', () => {
    const bytes = Uint8Array.from([0, 1, 2, 255, 254, 0])
    const { value } = bound(bytes)
    expect(value).toBeInstanceOf(Uint8Array)
    expect(Buffer.isBuffer(value)).toBe(false)
    expect(value).toEqual(bytes)
    expect(bound(bytes.subarray(1, 3)).value).toEqual(Uint8Array.from([1, 2]))
    expect(bound(Buffer.from('abc')).value).toEqual(Uint8Array.from(Buffer.from('abc')))
    expect(bound(new Uint8Array())).toEqual({ type: 'blob', value: new Uint8Array() })
  })

  test('a blob that comes out owns its memory: nothing else is in reach through it', () => {
    const { value } = bound(Uint8Array.from([1, 2, 3]))
    expect((value as Uint8Array).buffer.byteLength).toBe(3)
  })

  test.each([
    ['undefined', undefined],
    ['NaN', Number.NaN],
    ['a symbol', Symbol('x')],
    ['a function', () => 1],
    ['a date', new Date(0)],
    ['an object', { a: 1 }],
    ['a REAL that is no number', { type: 'real', value: '1' }],
    ['a REAL that is NaN', { type: 'real', value: Number.NaN }],
    ['an array', [1]],
    ['an ArrayBuffer', new ArrayBuffer(1)],
    ['another typed array', new Int16Array(1)],
    ['a lone surrogate', 'a\ud800'],
  ])('%s is refused, by name', (_what, value) => {
    const database = openTestDatabase()
    const positional = thrownBy(() => database.sql('SELECT ?, ?', [1, value] as SqlParams))
    expect(positional).toMatchObject({ code: 'invalid_parameter', details: { field: 'params[1]' } })
    const named = thrownBy(() => database.sql('SELECT :x', { x: value } as SqlParams))
    expect(named).toMatchObject({ code: 'invalid_parameter', details: { field: 'params.x' } })
  })

  test.each([
    ['a string', 'x'],
    ['a number', 1],
    ['null', null],
    ['a blob', new Uint8Array(1)],
    ['a map', new Map()],
  ])('parameters that are %s are no parameters', (_what, params) => {
    expect(codeOf(() => openTestDatabase().sql('SELECT 1', params as never))).toBe('invalid_parameter')
  })
})
