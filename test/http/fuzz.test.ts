import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { countOf } from '../support/counts.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { SEED } from '../support/seed.ts'
import { checkEveryReply } from './rows/row.ts'

const COUNT = countOf('CELLSTORE_TEST_HTTP_FUZZ_FIELDS')

/** Whatever is sent, the answer is one of the contract's, and none of it is a bug of ours. */

let bench: Bench
beforeAll(async () => {
  bench = await Bench.open(viaFetch)
  const sql = 'CREATE TABLE t (a INTEGER UNIQUE)'
  await bench.send({ method: 'POST', path: '/v1/databases/{cell}/sql', body: { sql } })
})
afterAll(() => bench.close())

/** Anything that JSON can hold. */
const { anything } = fc.letrec((tie) => ({
  leaf: fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.double(), fc.boolean(), fc.constant(null)),
  anything: fc.oneof(
    { depthSize: 'small' },
    tie('leaf'),
    fc.array(tie('anything'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom('type', 'key', '__proto__'), fc.string()), tie('anything'), {
      maxKeys: 4,
    }),
  ),
}))

/** Mostly what the field is for, and now and then anything. */
const mostly = (...values: unknown[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: anything })
const listOf = (entry: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 6, arbitrary: fc.array(entry, { maxLength: 5 }) }, { weight: 1, arbitrary: anything })

const STATEMENTS = [
  'SELECT ? AS a',
  'SELECT :a, @b, $c',
  'VALUES (1), (x)',
  'INSERT INTO t VALUES (?)',
  'SELECT * FROM t',
]
const MORE_STATEMENTS = [
  'DELETE FROM t RETURNING *',
  'WITH',
  'SELECT 1; SELECT 2',
  'PRAGMA user_version = 3',
  'BEGIN',
  '',
]
const INTEGERS = ['5', '-9223372036854775808', '9223372036854775808', '', '1.5']

const typed = fc.record(
  { type: mostly('integer', 'blob'), value: mostly(...INTEGERS), base64: mostly('aGk=', '*', 'a') },
  { requiredKeys: [] },
)
const fields = {
  key: mostly('k', 'l', '', 'é', '\u0000', 'k'.repeat(1_025)),
  value: mostly('5', 'v', '', '9223372036854775807'),
  ttl_seconds: mostly(1, 60, 0, -1, 1.5, null, 3_153_600_001),
  keep_ttl: mostly(true, false),
  delta: fc.oneof(mostly(1, -5, 0, 2 ** 53, 1e300), typed),
  sql: mostly(...STATEMENTS, ...MORE_STATEMENTS),
  params: fc.oneof(
    listOf(fc.oneof(anything, typed)),
    fc.dictionary(fc.constantFrom('a', ':a', '@b', '$c', '1', '__proto__'), fc.oneof(anything, typed)),
  ),
  row_mode: mostly('object', 'array'),
}
const operation = fc.record(
  { ...fields, kv: mostly('put', 'incr', 'expire', 'delete') },
  { requiredKeys: [] },
)
const body = fc.record(
  {
    ...fields,
    name: mostly('acme', null, 'n'.repeat(256)),
    keys: listOf(fields.key),
    entries: listOf(
      fc.record(
        { key: fields.key, value: fields.value, ttl_seconds: fields.ttl_seconds },
        { requiredKeys: [] },
      ),
    ),
    operations: listOf(operation),
  },
  { requiredKeys: [] },
)

const cell = fc.oneof(
  { weight: 20, arbitrary: fc.constant('{cell}') },
  { weight: 1, arbitrary: fc.constant('{stranger}') },
)
const segment = fc.oneof(
  fc.constantFrom('k', 'l', 'caf%C3%A9', '%2F', '%00', '%ff', '.', '%', '{cell}'),
  fc.string().map(encodeURIComponent),
)
const query = fc.oneof(
  fc.constantFrom('', '?limit=5', '?limit=0&cursor=x', '?values&reverse', '?prefix=%ff', '?=&&=', '?%'),
  fc.string().map((text) => `?prefix=${encodeURIComponent(text)}`),
)

const ask: fc.Arbitrary<Ask> = fc
  .record({
    route: fc.constantFrom(...ROUTES),
    cell,
    segment,
    query,
    body: fc.oneof(
      { weight: 20, arbitrary: body.map((value) => JSON.stringify(value)) },
      { weight: 1, arbitrary: anything.map((value) => JSON.stringify(value)) },
      { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
    ),
    idempotencyKey: fc.option(fc.string({ unit: 'grapheme-ascii' }), { freq: 10 }),
  })
  .map(({ route: [method, path, { takesBody }], cell, segment, query, body, idempotencyKey }) => ({
    method,
    path: path.replace('{id}', cell).replace(/\{k\w+\}/, () => segment) + query,
    ...(takesBody ? { raw: body } : {}),
    ...(idempotencyKey === null ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
  }))
  // These change the cell that the others use, or wait for the disk; and of a Request "/./" becomes another path.
  .filter(({ path, method }) => method !== 'DELETE' && !/\/(backup|restore|\.\/)/.test(path))

test(
  'no request is answered with a bug',
  async () => {
    await fc.assert(
      fc.asyncProperty(ask, async (request) => {
        const reply = await bench.send(request)
        checkEveryReply(reply, bench, request)
        expect(reply.status).not.toBe(500)
        expect(bench.logged).toEqual([])
      }),
      { numRuns: COUNT, seed: SEED },
    )
  },
  60_000 + COUNT * 20,
)
