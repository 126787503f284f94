import { expect, test, vi } from 'vitest'
import { hasMoreValues } from '../../src/http/body/request-body.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { checkProblem } from './rows/row.ts'

/** Bodies of very many values: those that the node reads itself are counted first, the others are for whoever has the cell. */

const bench = Bench.perTest(viaFetch)

test.each([
  ['[1,2,3]', 4],
  ['{"a":1,"b":[2]}', 6],
  ['[[[[]]]]', 5],
  ['["a,b,c,d,e,f","{[:","\\"",",\\\\",","]', 6],
  ['[ 1 , "unfinished, with, commas', 3],
])('%s has as many values and names as its parts', (json, values) => {
  // Short ones are not counted: so blanks before it.
  const bytes = Buffer.from(' '.repeat(100) + json)
  expect(hasMoreValues(bytes, values - 1)).toBe(true)
  expect(hasMoreValues(bytes, values)).toBe(false)
})

const LARGE = 2_000_000
const many = (element: string) => `[${`${element},`.repeat(LARGE / (element.length + 1) - 20)}${element}]`

test.each([
  ['POST', '/v1/databases', `{"name":"n","x":${'['.repeat(500_000)}${']'.repeat(500_000)}}`],
  ['POST', '/v1/api-keys', `{"x":${many('1234567890123456789')}}`],
  ['POST', '/v1/databases/{cell}/restore', `{"x":${many('{"a":1}')}}`],
])('%s %s refuses a body of too many values before it parses one', async (method, path, raw) => {
  const parse = vi.spyOn(JSON, 'parse')
  const reply = await bench.send({ method, path, raw })
  expect(parse.mock.calls.filter(([text]) => text.length > 10_000)).toEqual([])
  checkProblem(reply, 400, { code: 'invalid_request', limit: 10_000 })
})

test.each([
  ['PUT', '/v1/databases/{cell}/kv/k', `{"value":"v","x":${many('{}')}}`, { field: 'x' }],
  [
    'POST',
    '/v1/databases/{cell}/kv/ops/mset',
    `{"entries":${many('{}')}}`,
    { field: 'entries', limit: 1_000 },
  ],
  ['POST', '/v1/databases/{cell}/kv/ops/mget', `{"keys":${many('1')}}`, { field: 'keys', limit: 1_000 }],
  ['POST', '/v1/databases/{cell}/kv/ops/ttl', `{"keys":${many('""')}}`, { field: 'keys', limit: 1_000 }],
  ['POST', '/v1/databases/{cell}/kv/ops/delete', `{"keys":${many('[]')}}`, { field: 'keys', limit: 1_000 }],
])('%s %s names what is wrong with a body of very many values', async (method, path, raw, members) => {
  checkProblem(await bench.send({ method, path, raw }), 400, { code: 'invalid_request', ...members })
})

test('what the documentation allows stays within the bound', async () => {
  const keys = Array.from({ length: 1_000 }, (_, i) => `k${i}`)
  const entries = keys.map((key) => ({ key, value: 'v'.repeat(1_900), ttl_seconds: 9 }))
  const ops = '/v1/databases/{cell}/kv/ops'
  expect((await bench.send({ method: 'POST', path: `${ops}/mset`, body: { entries } })).json).toMatchObject({
    count: 1_000,
  })
  for (const name of ['ttl', 'mget', 'delete'])
    expect((await bench.send({ method: 'POST', path: `${ops}/${name}`, body: { keys } })).status).toBe(200)
  const value = ',"[{'.repeat(100_000)
  expect(
    (await bench.send({ method: 'PUT', path: '/v1/databases/{cell}/kv/k', body: { value } })).status,
  ).toBe(200)
})

const sql = { method: 'POST', path: '/v1/databases/{cell}/sql' }
const batch = { method: 'POST', path: '/v1/databases/{cell}/batch' }

test('a statement takes all of its parameters, in a list and by name, and a batch all of its operations', async () => {
  const typed = { type: 'integer', value: '9007199254740993' }
  const row_mode = 'array'
  const list = { sql: 'SELECT ?1, ?32766', params: Array(32_766).fill(typed), row_mode }
  expect((await bench.send({ ...sql, body: list })).json).toMatchObject({
    rows: [['9007199254740993', '9007199254740993']],
  })
  const params = Object.fromEntries(Array.from({ length: 32_766 }, (_, i) => [`?${i + 1}`, i]))
  expect((await bench.send({ ...sql, body: { sql: 'SELECT ?32766', params, row_mode } })).json).toMatchObject(
    {
      rows: [[32_765]],
    },
  )
  const operations = Array(1_000).fill({ sql: 'SELECT ?700', params: Array(700).fill(7), row_mode })
  const { json } = await bench.send({ ...batch, body: { operations } })
  expect((json as { results: unknown[] }).results.length).toBe(1_000)
})

test('a fault in a statement of many values is named as in one of few', async () => {
  const params = [...Array(20_000).fill(1), { type: 'integer', value: 'x' }]
  checkProblem(await bench.send({ ...sql, body: { sql: 'SELECT ?', params } }), 400, {
    code: 'invalid_parameter',
    field: 'params[20000]',
  })
  checkProblem(
    await bench.send({
      ...batch,
      body: {
        operations: [
          { kv: 'delete', key: 'k' },
          { sql: 'SELECT ?', params },
        ],
      },
    }),
    400,
    {
      code: 'invalid_parameter',
      field: 'operations[1].params[20000]',
      index: 1,
    },
  )
  checkProblem(await bench.send({ ...sql, raw: `{"sql":"SELECT 1","params":${many('1')}` }), 400, {
    code: 'invalid_json',
  })
  checkProblem(await bench.send({ ...sql, body: { sql: 'SELECT 1', params, timeout_ms: 0 } }), 400, {
    code: 'invalid_request',
    field: 'timeout_ms',
    limit: 5_000,
  })
})
