import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import type { Ask } from '../../support/http/bench.ts'
import { ENTRY_VERSION, IN_A_MINUTE } from './kv-asks.ts'
import { COUNT, type Row } from './row.ts'

const path = '/v1/databases/{cell}/batch'
const batch = (...operations: unknown[]): Ask => ({ method: 'POST', path, body: { operations } })
const table: Ask = {
  method: 'POST',
  path: '/v1/databases/{cell}/sql',
  body: { sql: 'CREATE TABLE t (a UNIQUE)' },
}
const put = { kv: 'put', key: 'k', value: '1' }
const FAMILY: Ask[] = [
  batch(
    { sql: 'CREATE TABLE parent (id INTEGER PRIMARY KEY)' },
    { sql: 'CREATE TABLE child (p REFERENCES parent)' },
    { sql: 'INSERT INTO parent VALUES (1), (2)' },
    { sql: 'INSERT INTO child VALUES (1), (2)' },
  ),
]
const DEFER = { sql: 'PRAGMA defer_foreign_keys = ON' }
const REBUILD = [
  'CREATE TABLE kept AS SELECT * FROM parent',
  'DROP TABLE parent',
  'CREATE TABLE parent (id INTEGER PRIMARY KEY, city TEXT)',
  'INSERT INTO parent (id) SELECT id FROM kept',
  'DROP TABLE kept',
]
const insert = { sql: 'INSERT INTO t VALUES (?)', params: [1] }

export const BATCH_ROWS: Row[] = [
  {
    title: 'SQL and KV together, each answered as by itself',
    before: [table],
    ask: batch(
      insert,
      { kv: 'put', key: 'k', value: '1', ttl_seconds: 60 },
      { kv: 'incr', key: 'k', delta: 4 },
      { kv: 'expire', key: 'k' },
      { kv: 'expire', key: 'missing', ttl_seconds: 5 },
      { kv: 'delete', key: 'missing' },
      { sql: 'SELECT a FROM t', row_mode: 'array' },
    ),
    status: 200,
    body: {
      results: [
        { columns: [], rows: [], row_count: 0, changes: 1, last_insert_rowid: 1, duration_ms: COUNT },
        { key: 'k', created: true, version: ENTRY_VERSION, ttl_seconds: 60, expires_at: IN_A_MINUTE },
        { key: 'k', value: 5, version: ENTRY_VERSION, ttl_seconds: 60, expires_at: IN_A_MINUTE },
        { key: 'k', updated: true, version: ENTRY_VERSION, ttl_seconds: -1 },
        { key: 'missing', updated: false, version: null, ttl_seconds: null },
        { key: 'missing', deleted: false },
        {
          columns: ['a'],
          rows: [[1]],
          row_count: 1,
          changes: 0,
          last_insert_rowid: null,
          duration_ms: COUNT,
        },
      ],
    },
  },
  {
    title: 'a table to which others refer, rebuilt with its foreign keys judged at the end',
    before: FAMILY,
    ask: batch(DEFER, ...REBUILD.map((sql) => ({ sql })), { sql: 'SELECT p FROM child', row_mode: 'array' }),
    status: 200,
    body: {
      results: expect.toSatisfy((results: { rows: unknown[] }[]) =>
        isDeepStrictEqual(results.at(-1)?.rows, [[1], [2]]),
      ),
    },
  },
  {
    title: 'foreign keys that are broken at the end of the batch that defers them',
    before: FAMILY,
    ask: batch(DEFER, { sql: 'DELETE FROM parent' }),
    status: 409,
    problem: { code: 'constraint_violation', sqlite_code: 'SQLITE_CONSTRAINT_FOREIGNKEY' },
  },
  {
    title: 'a foreign key that is broken in the batch after one that defers them',
    before: [...FAMILY, batch(DEFER, { sql: 'SELECT 1' })],
    ask: batch({ sql: 'INSERT INTO child VALUES (3)' }, { sql: 'INSERT INTO parent VALUES (3)' }),
    status: 409,
    problem: { code: 'constraint_violation', sqlite_code: 'SQLITE_CONSTRAINT_FOREIGNKEY', index: 0 },
  },
  {
    title: 'PRAGMA foreign_keys',
    ask: batch({ sql: 'PRAGMA foreign_keys = OFF' }),
    status: 403,
    problem: {
      code: 'statement_not_allowed',
      index: 0,
      detail: expect.stringMatching(/PRAGMA defer_foreign_keys = ON/),
    },
  },
  { title: 'no operation at all', ask: batch(), status: 200, body: { results: [] } },
  {
    title: 'an error in the middle',
    before: [table],
    ask: batch(insert, put, insert),
    status: 409,
    problem: { code: 'constraint_violation', sqlite_code: 'SQLITE_CONSTRAINT_UNIQUE', index: 2 },
  },
  {
    title: 'forbidden SQL',
    ask: batch(put, { sql: 'COMMIT' }),
    status: 403,
    problem: { code: 'statement_not_allowed', index: 1 },
  },
  {
    title: 'an unknown kind of KV operation',
    ask: batch({ kv: 'get', key: 'k' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0].kv', index: 0 },
  },
  {
    title: 'an operation of neither kind',
    ask: batch(put, {}),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[1]', index: 1 },
  },
  {
    title: 'an operation of both kinds',
    ask: batch({ sql: 'SELECT 1', kv: 'put' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0]', index: 0 },
  },
  {
    title: 'an operation that is no object',
    ask: batch('SELECT 1'),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0]', index: 0 },
  },
  {
    title: 'sql that is no string',
    ask: batch({ sql: 5 }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0].sql', index: 0 },
  },
  {
    title: 'a put without a value',
    ask: batch({ kv: 'put', key: 'k' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0].value', index: 0 },
  },
  {
    title: 'a put without a key',
    ask: batch({ kv: 'put', value: 'v' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0].key', index: 0 },
  },
  {
    title: 'a TTL of a wrong type',
    ask: batch({ ...put, ttl_seconds: '60' }),
    status: 400,
    problem: { code: 'invalid_ttl', field: 'operations[0].ttl_seconds', index: 0 },
  },
  {
    title: 'a TTL out of range',
    ask: batch(put, { ...put, ttl_seconds: 0 }),
    status: 400,
    problem: { code: 'invalid_ttl', field: 'operations[1].ttl_seconds', index: 1, limit: 3_153_600_000 },
  },
  {
    title: 'an empty key',
    ask: batch({ ...put, key: '' }),
    status: 400,
    problem: { code: 'invalid_key', field: 'operations[0].key', index: 0 },
  },
  {
    title: 'a parameter of a wrong kind',
    ask: batch({ sql: 'SELECT ?', params: [[]] }),
    status: 400,
    problem: { code: 'invalid_parameter', field: 'operations[0].params[0]', index: 0 },
  },
  {
    title: 'a delta of a wrong kind',
    ask: batch({ kv: 'incr', key: 'k', delta: 'x' }),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations[0].delta', index: 0 },
  },
  {
    title: 'no operations',
    ask: { method: 'POST', path, body: {} },
    status: 400,
    problem: { code: 'invalid_request', field: 'operations' },
  },
  {
    title: 'operations that are no list',
    ask: { method: 'POST', path, body: { operations: {} } },
    status: 400,
    problem: { code: 'invalid_request', field: 'operations' },
  },
  {
    title: '1,000 operations',
    ask: batch(...new Array(1_000).fill({ kv: 'incr', key: 'n' })),
    status: 200,
    body: { results: expect.toSatisfy((results: unknown[]) => results.length === 1_000) },
  },
  {
    title: '1,001 operations',
    ask: batch(...new Array(1_001).fill({ kv: 'incr', key: 'n' })),
    status: 400,
    problem: { code: 'invalid_request', field: 'operations', limit: 1_000 },
  },
  {
    title: 'results that are too large together',
    ask: batch({ sql: 'SELECT zeroblob(6000000)' }, { sql: 'SELECT zeroblob(6000000)' }),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_485_760, index: 1 },
  },
]
