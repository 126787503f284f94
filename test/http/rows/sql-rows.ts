import { expect } from 'vitest'
import type { Ask } from '../../support/http/bench.ts'
import { COUNT, type Row } from './row.ts'

const path = '/v1/databases/{cell}/sql'
const sql = (text: string, params?: unknown): Ask => ({
  method: 'POST',
  path,
  body: { sql: text, ...(params === undefined ? {} : { params }) },
})
const answer = (members: object) => ({
  columns: [],
  rows: [],
  row_count: 0,
  changes: 0,
  last_insert_rowid: null,
  duration_ms: COUNT,
  ...members,
})
const value = (v: unknown) => answer({ columns: ['v'], rows: [{ v }], row_count: 1 })
const table = [sql('CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INT CHECK (n > 0))')]

const raw = (text: string): Ask => ({ method: 'POST', path, raw: text })
/** A statement that shows what a parameter was bound as. */
const typed = (param: string): Ask =>
  raw(`{"sql":"SELECT typeof(?1) AS t, CAST(?1 AS TEXT) AS v","params":{"1":${param}}}`)

const BOUND: [param: string, type: string, text: string | null][] = [
  ['"text"', 'text', 'text'],
  ['""', 'text', ''],
  ['1', 'integer', '1'],
  ['-1', 'integer', '-1'],
  ['9007199254740991', 'integer', '9007199254740991'],
  ['9007199254740993', 'integer', '9007199254740993'],
  ['9223372036854775807', 'integer', '9223372036854775807'],
  ['-9223372036854775808', 'integer', '-9223372036854775808'],
  ['1.5', 'real', '1.5'],
  ['1e300', 'real', '1.0e+300'],
  ['9.223372036854775808e18', 'real', '9.2233720368547758e+18'],
  ['-9.223372036854777856e18', 'real', '-9.2233720368547779e+18'],
  ['true', 'integer', '1'],
  ['false', 'integer', '0'],
  ['null', 'null', null],
  ['{"type":"integer","value":"9223372036854775807"}', 'integer', '9223372036854775807'],
  ['{"type":"integer","value":"-5"}', 'integer', '-5'],
  ['{"type":"real","value":10000000000000000}', 'real', '10000000000000000.0'],
  ['{"type":"real","value":1e17}', 'real', '1.0e+17'],
  ['{"type":"real","value":5}', 'real', '5.0'],
  ['{"type":"blob","base64":"aGk="}', 'blob', 'hi'],
  ['{"type":"blob","base64":"aGk"}', 'blob', 'hi'],
  ['{"type":"blob","base64":""}', 'blob', ''],
]

const REFUSED_PARAMS: [what: string, param: string][] = [
  ['an integer above 64 bits', '9223372036854775808'],
  ['an integer below 64 bits', '-9223372036854775809'],
  ['a whole number with an exponent that may have been rounded', '1e17'],
  ['the least integer of 64 bits with an exponent', '-9.223372036854775808e18'],
  ['the least integer of 64 bits with a fraction', '-9223372036854775808.0'],
  ['the number before 2^63 with an exponent', '9.223372036854774784e18'],
  ['an integer of a thousand digits', '9'.repeat(1_000)],
  ['a typed integer above 64 bits', '{"type":"integer","value":"9223372036854775808"}'],
  ['a typed integer of a number', '{"type":"integer","value":5}'],
  ['a typed integer of no digits', '{"type":"integer","value":"5.0"}'],
  ['a typed integer without a value', '{"type":"integer"}'],
  ['a typed real of no number', '{"type":"real","value":"1"}'],
  ['a blob of no base64', '{"type":"blob","base64":"a*"}'],
  ['a blob of base64url', '{"type":"blob","base64":"-_-_"}'],
  ['a blob of a number', '{"type":"blob","base64":5}'],
  ['an unknown type', '{"type":"float","value":"1"}'],
  ['an object without a type', '{}'],
  ['a list', '[1]'],
  ['a lone surrogate', '"\\udc00"'],
  ['a fraction that was rounded to an unsafe whole number', '9007199254740993.5'],
]

const LONG = 'x'.repeat(102_400 - "SELECT ''".length)

export const SQL_ROWS: Row[] = [
  { title: 'a schema change', ask: sql('CREATE TABLE t (a)'), status: 200, body: answer({}) },
  {
    title: 'an insert',
    before: table,
    ask: sql('INSERT INTO t (name) VALUES (?), (?)', ['a', 'b']),
    status: 200,
    body: answer({ changes: 2, last_insert_rowid: 2 }),
  },
  {
    title: 'an insert with RETURNING',
    before: table,
    ask: sql('INSERT INTO t (name) VALUES (?) RETURNING id, name', ['a']),
    status: 200,
    body: answer({
      columns: ['id', 'name'],
      rows: [{ id: 1, name: 'a' }],
      row_count: 1,
      changes: 1,
      last_insert_rowid: 1,
    }),
  },
  {
    title: 'an insert with a rowid beyond 2^53',
    before: table,
    ask: sql('INSERT INTO t (id) VALUES (9007199254740993)'),
    status: 200,
    body: answer({ changes: 1, last_insert_rowid: '9007199254740993' }),
  },
  {
    title: 'a select',
    before: [...table, sql("INSERT INTO t (name) VALUES ('a'), ('b')")],
    ask: sql('SELECT id, name FROM t WHERE id > ? ORDER BY id', [0]),
    status: 200,
    body: answer({
      columns: ['id', 'name'],
      rows: [
        { id: 1, name: 'a' },
        { id: 2, name: 'b' },
      ],
      row_count: 2,
    }),
  },
  {
    title: 'rows as arrays',
    ask: { method: 'POST', path, body: { sql: 'SELECT 1 AS a, 2 AS a', row_mode: 'array' } },
    status: 200,
    body: answer({ columns: ['a', 'a_2'], rows: [[1, 2]], row_count: 1 }),
  },
  {
    title: 'a column that is called __proto__',
    ask: sql('SELECT 9007199254740993 AS "__proto__"'),
    status: 200,
    body: expect.toSatisfy((body: { rows: object[] }) => {
      expect(JSON.stringify(body.rows)).toBe('[{"__proto__":"9007199254740993"}]')
      return true
    }),
  },
  {
    title: 'a safe integer',
    ask: sql('SELECT 9007199254740991 AS v'),
    status: 200,
    body: value(9_007_199_254_740_991),
  },
  {
    title: 'an unsafe integer',
    ask: sql('SELECT 9007199254740992 AS v'),
    status: 200,
    body: value('9007199254740992'),
  },
  {
    title: 'the least integer',
    ask: sql('SELECT -9223372036854775808 AS v'),
    status: 200,
    body: value('-9223372036854775808'),
  },
  {
    title: 'a blob',
    ask: sql("SELECT x'00ff' AS v"),
    status: 200,
    body: value({ type: 'blob', base64: 'AP8=' }),
  },
  {
    title: 'an empty blob',
    ask: sql("SELECT x'' AS v"),
    status: 200,
    body: value({ type: 'blob', base64: '' }),
  },
  { title: 'an infinite real', ask: sql('SELECT 9e999 AS v'), status: 200, body: value('Infinity') },
  {
    title: 'a negative infinite real',
    ask: sql('SELECT -9e999 AS v'),
    status: 200,
    body: value('-Infinity'),
  },
  { title: 'a real', ask: sql('SELECT 0.1 AS v'), status: 200, body: value(0.1) },
  { title: 'a NULL', ask: sql('SELECT NULL AS v'), status: 200, body: value(null) },
  {
    title: 'a text with every plane of Unicode',
    ask: sql('SELECT ? AS v', ['a\u0000é€𝄞\ud83d\ude00']),
    status: 200,
    body: value('a\u0000é€𝄞😀'),
  },
  ...BOUND.map(
    ([param, type, text]): Row => ({
      title: `the parameter ${param}`,
      ask: typed(param),
      status: 200,
      body: answer({ columns: ['t', 'v'], rows: [{ t: type, v: text }], row_count: 1 }),
    }),
  ),
  ...REFUSED_PARAMS.map(
    ([what, param]): Row => ({
      title: `a parameter that is ${what}`,
      ask: raw(`{"sql":"SELECT ?","params":[${param}]}`),
      status: 400,
      problem: { code: 'invalid_parameter', field: 'params[0]' },
    }),
  ),
  {
    title: 'named parameters, with their signs and without',
    ask: sql('SELECT :a AS a, @b AS b, $c AS c', { a: 1, '@b': 2, $c: 3 }),
    status: 200,
    body: answer({ columns: ['a', 'b', 'c'], rows: [{ a: 1, b: 2, c: 3 }], row_count: 1 }),
  },
  {
    title: 'a named parameter that is given twice',
    ask: sql('SELECT :a', { a: 1, ':a': 2 }),
    status: 400,
    problem: { code: 'invalid_parameter', field: 'params.:a' },
  },
  {
    title: 'a named parameter that is called __proto__',
    ask: raw('{"sql":"SELECT :__proto__ AS v","params":{"__proto__":7}}'),
    status: 200,
    body: value(7),
  },
  {
    title: 'a named parameter of the wrong kind',
    ask: sql('SELECT :a', { a: [] }),
    status: 400,
    problem: { code: 'invalid_parameter', field: 'params.a' },
  },
  {
    title: 'parameters that are a string',
    ask: sql('SELECT 1', 'x'),
    status: 400,
    problem: { code: 'invalid_parameter', field: 'params' },
  },
  { title: 'parameters that are null', ask: sql('SELECT 1 AS v', null), status: 200, body: value(1) },
  {
    title: 'too few parameters',
    ask: sql('SELECT ?, ?', [1]),
    status: 400,
    problem: { code: 'param_count_mismatch' },
  },
  {
    title: 'no sql',
    ask: { method: 'POST', path, body: {} },
    status: 400,
    problem: { code: 'invalid_request', field: 'sql' },
  },
  {
    title: 'no body',
    ask: { method: 'POST', path },
    status: 400,
    problem: { code: 'invalid_request', field: 'sql' },
  },
  {
    title: 'sql that is no string',
    ask: { method: 'POST', path, body: { sql: 1 } },
    status: 400,
    problem: { code: 'invalid_request', field: 'sql' },
  },
  {
    title: 'an unknown row_mode',
    ask: { method: 'POST', path, body: { sql: 'SELECT 1', row_mode: 'csv' } },
    status: 400,
    problem: { code: 'invalid_request', field: 'row_mode' },
  },
  {
    title: 'sql with a lone surrogate',
    ask: raw('{"sql":"SELECT \'\\ud800\'"}'),
    status: 400,
    problem: { code: 'invalid_request', field: 'sql' },
  },
  {
    title: 'SQL text of 102,400 bytes',
    ask: sql(`SELECT '${LONG}'`),
    status: 200,
    body: expect.objectContaining({ row_count: 1 }),
  },
  {
    title: 'SQL text of 102,401 bytes',
    ask: sql(`SELECT '${LONG}x'`),
    status: 413,
    problem: { code: 'sql_too_long', limit: 102_400 },
  },
  { title: 'an empty statement', ask: sql(' ; -- nothing'), status: 400, problem: { code: 'sql_error' } },
  { title: 'a syntax error', ask: sql('SELEKT 1'), status: 403, problem: { code: 'statement_not_allowed' } },
  {
    title: 'a syntax error behind the first word',
    ask: sql('SELECT FROM'),
    status: 400,
    problem: { code: 'sql_error', sqlite_code: 'SQLITE_ERROR' },
  },
  {
    title: 'a missing table',
    ask: sql('SELECT * FROM nowhere'),
    status: 400,
    problem: { code: 'sql_error', sqlite_code: 'SQLITE_ERROR' },
  },
  {
    title: 'two statements',
    ask: sql('SELECT 1; SELECT 2'),
    status: 400,
    problem: { code: 'multiple_statements' },
  },
  {
    title: 'a UNIQUE constraint',
    before: [...table, sql("INSERT INTO t (name) VALUES ('a')")],
    ask: sql("INSERT INTO t (name) VALUES ('a')"),
    status: 409,
    problem: { code: 'constraint_violation', sqlite_code: 'SQLITE_CONSTRAINT_UNIQUE' },
  },
  {
    title: 'a statement that the policy refuses',
    ask: sql('PRAGMA journal_mode = delete'),
    status: 403,
    problem: { code: 'statement_not_allowed' },
  },
  {
    title: 'a PRAGMA that works only in a batch',
    ask: sql('PRAGMA defer_foreign_keys = ON'),
    status: 403,
    problem: { code: 'statement_not_allowed', detail: expect.stringMatching(/of a batch over HTTP/) },
  },
  {
    title: 'an allowed PRAGMA',
    ask: sql('PRAGMA user_version'),
    status: 200,
    body: answer({ columns: ['user_version'], rows: [{ user_version: 0 }], row_count: 1 }),
  },
  {
    title: 'the live entries as a view',
    before: [{ method: 'PUT', path: '/v1/databases/{cell}/kv/a', body: { value: 'x' } }],
    ask: sql('SELECT key, value, expires_at FROM cell_kv'),
    status: 200,
    body: answer({
      columns: ['key', 'value', 'expires_at'],
      rows: [{ key: 'a', value: 'x', expires_at: null }],
      row_count: 1,
    }),
  },
  {
    title: '10,000 rows',
    ask: sql('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT i FROM n'),
    status: 200,
    body: expect.objectContaining({ row_count: 10_000 }),
  },
  {
    title: '10,001 rows',
    ask: sql('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) SELECT i FROM n'),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_000 },
  },
  {
    title: '10 MiB of result',
    ask: sql('SELECT zeroblob(10485760)'),
    status: 200,
    body: expect.objectContaining({ row_count: 1 }),
  },
  {
    title: '10 MiB and a byte of result',
    ask: sql('SELECT zeroblob(10485761)'),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_485_760 },
  },
  {
    title: 'a long column name in many rows',
    ask: sql(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT i AS "${'n'.repeat(2_000)}" FROM n`,
    ),
    status: 400,
    problem: { code: 'result_too_large', limit: 10_485_760 },
  },
  {
    title: 'a value larger than SQLite makes',
    ask: sql('SELECT zeroblob(3000000000)'),
    status: 400,
    problem: { code: 'result_memory_exceeded', sqlite_code: 'SQLITE_TOOBIG' },
  },
  {
    title: 'more than fits in the cell',
    bench: { store: { limits: { cellBytesMax: 262_144 } } },
    before: [sql('CREATE TABLE t (a)')],
    ask: sql('INSERT INTO t VALUES (zeroblob(300000))'),
    status: 507,
    problem: { code: 'cell_full', limit: 262_144, sqlite_code: 'SQLITE_FULL' },
  },
  {
    title: 'a table with AUTOINCREMENT whose last rowid is used',
    before: [
      sql('CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)'),
      sql('INSERT INTO t (id) VALUES (9223372036854775807)'),
    ],
    ask: sql('INSERT INTO t (a) VALUES (1)'),
    status: 400,
    problem: { code: 'sql_error', sqlite_code: 'SQLITE_FULL' },
  },
]
