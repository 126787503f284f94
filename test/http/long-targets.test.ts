import { expect, test } from 'vitest'
import { Query } from '../../src/service/requests/query.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { thrownBy } from '../support/thrown.ts'
import { checkProblem } from './rows/row.ts'

const bench = Bench.perTest(viaFetch)

test('a query has at most 64 parameters, and none of more is decoded', async () => {
  const names = Array.from({ length: 63 }, (_, i) => `p${i}`)
  expect(new Query(`${names.join('&')}&limit=7`, [...names, 'limit']).limit(1, 10)).toBe(7)
  expect(thrownBy(() => new Query('%ff&'.repeat(64), []))).toMatchObject({
    details: { field: 'query', limit: 64 },
  })
  const path = `/v1/databases?${'&'.repeat(10_000)}`
  checkProblem(await bench.send({ method: 'GET', path }), 400, {
    code: 'invalid_request',
    field: 'query',
    limit: 64,
  })
})

test('a path of thousands of segments is no route', async () => {
  checkProblem(await bench.send({ method: 'GET', path: `/v1${'/'.repeat(10_000)}` }), 404, {
    code: 'not_found',
  })
  checkProblem(await bench.send({ method: 'GET', path: '/v1/databases/{cell}/kv/k/x' }), 404, {
    code: 'not_found',
  })
})
