import { describe, expect, test } from 'vitest'
import type { CellRoute } from '../../../src/service/operations.ts'
import { operationShape } from '../../../src/workers/node/dispatch/operation-shape.ts'

/** As an account sends it: the node does not read the body. */
function shapeOf(route: CellRoute, body: unknown): string {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  return operationShape({ op: 'request', route, body: bytes })
}

const LARGE = 'secret'.repeat(20_000)

describe('What a log shows of a body that its worker reads', () => {
  test('is the shape of its statements, without any value', () => {
    expect(shapeOf('sql', { sql: "SELECT 'secret' FROM notes", params: ['secret'] })).toBe(
      'SELECT ? FROM notes',
    )
    expect(shapeOf('batch', { operations: [{ sql: 'DELETE FROM a' }, { sql: 'DELETE FROM b' }] })).toBe(
      'batch of 2; DELETE FROM a; DELETE FROM b',
    )
  })

  test('is the shape of the first statement also if the body is long', () => {
    const sql = 'INSERT INTO notes VALUES (?)'
    expect(shapeOf('sql', { sql, params: [LARGE] })).toBe(sql)
    expect(shapeOf('sql', ` {\n "sql" : ${JSON.stringify(`${sql} -- "…"`)}, "params": ["${LARGE}"]}`)).toBe(
      sql,
    )
    const shape = shapeOf('batch', { operations: [{ sql, params: [LARGE] }, { sql: 'DELETE FROM b' }] })
    expect(shape).toMatch(/^batch of \d+ bytes; INSERT INTO notes VALUES \(\?\)$/)
  })

  test.each([
    ['a text', `INSERT INTO notes VALUES ('${LARGE}')`, 'INSERT INTO notes VALUES (?'],
    ['escapes', `INSERT INTO notes VALUES ('${'\u0001"\\'.repeat(20_000)}')`, 'INSERT INTO notes VALUES (?'],
    [
      'letters of several bytes',
      `INSERT INTO notes VALUES ('${'ﷺ'.repeat(30_000)}')`,
      'INSERT INTO notes VALUES (?',
    ],
  ])('ends where a long statement is cut, which is in %s', (_, sql, shape) => {
    expect(shapeOf('sql', { sql })).toBe(shape)
  })

  test('is only how long the body is if it does not begin with its statement, or is no JSON', () => {
    for (const body of [
      { params: [LARGE, '{"sql":"SELECT secret"}'], sql: 'SELECT 1' },
      { operations: [{ params: [LARGE], sql: 'SELECT 1' }] },
      `{"sql":"SELECT\nsecret", "params": ["${LARGE}"]}`,
      `["sql", "${LARGE}"]`,
    ])
      expect(shapeOf('sql', body)).toMatch(/^sql of \d+ bytes$/)
    expect(shapeOf('kv.mset', { entries: { secret: LARGE } })).toBe('kv.mset')
  })
})
