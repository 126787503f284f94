import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { kv, op, put } from './rows/kv-asks.ts'
import { checkProblem, saidBy, UNKNOWN_ID } from './rows/row.ts'

let bench: Bench
beforeAll(async () => {
  bench = await Bench.open(viaFetch)
})
afterAll(() => bench.close())
beforeEach(() => void bench.newCell())

const database = '/v1/databases/{cell}'
const sql = (body: unknown): Ask => ({ method: 'POST', path: `${database}/sql`, body })
const batch = (...operations: unknown[]): Ask => ({
  method: 'POST',
  path: `${database}/batch`,
  body: { operations },
})

const BODIES: [what: string, ask: Ask, field: string, near: string][] = [
  ['a put', put('k', { value: 'x', ttl: 5 }), 'ttl', 'ttl_seconds'],
  ['a put whose value is misspelt', put('k', { valeu: 'x' }), 'valeu', 'value'],
  ['an increment', op('incr', { key: 'k', by: 2, dleta: 2 }), 'by', ''],
  ['a time to live', op('expire', { key: 'k', ttlSeconds: 5 }), 'ttlSeconds', 'ttl_seconds'],
  ['many puts', op('mset', { entrys: [] }), 'entrys', 'entries'],
  [
    'one of many puts',
    op('mset', { entries: [{ key: 'a', value: 'x', ttl_secs: 5 }] }),
    'entries[0].ttl_secs',
    'ttl_seconds',
  ],
  ['many gets', op('mget', { key: ['a'] }), 'key', 'keys'],
  ['a statement', sql({ sql: 'SELECT 1', parms: [] }), 'parms', 'params'],
  ['a timeout', sql({ sql: 'SELECT 1', timeout: 5 }), 'timeout', 'timeout_ms'],
  ['a statement of a batch', batch({ sql: 'SELECT 1', param: [] }), 'operations[0].param', 'params'],
  [
    'a put of a batch',
    batch({ kv: 'put', key: 'k', value: 'x', ttl: 5 }),
    'operations[0].ttl',
    'ttl_seconds',
  ],
  ['a deletion in a batch', batch({ kv: 'delete', keys: 'k' }), 'operations[0].keys', 'key'],
  [
    'a restore',
    { method: 'POST', path: `${database}/restore`, body: { verison: 'x' } },
    'verison',
    'version',
  ],
  [
    'a restore to a time',
    { method: 'POST', path: `${database}/restore`, body: { timestmap: '2026-11-21T02:02:13Z' } },
    'timestmap',
    'timestamp',
  ],
  [
    'a source of a new cell',
    { method: 'POST', path: '/v1/databases', body: { from: { cell: '{cell}' } } },
    'from.cell',
    'cell_id',
  ],
]

describe('a body with an unknown field', () => {
  test.each(BODIES)('in %s is refused, with the nearest name', async (_what, ask, field, near) => {
    const { status, json } = await bench.send(ask)
    expect({ status, json }).toMatchObject({ status: 400, json: { code: 'invalid_request', field } })
    if (near !== '') expect(json).toMatchObject({ detail: `${field} is not known: did you mean ${near}?` })
    expect(bench.store.openCell(bench.cell).kv.list().entries).toEqual([])
  })

  test.each(['backup', 'backup/incr'])('is refused where no field is taken: %s', async (path) => {
    const { status, json } = await bench.send({
      method: 'POST',
      path: `${database}/${path}`,
      body: { kind: 'x' },
    })
    expect({ status, json }).toMatchObject({
      status: 400,
      json: { field: 'kind', detail: 'kind is not known: none is taken here.' },
    })
  })

  test.each(['/v1/api-keys', '/v1/databases'])('is taken by POST %s, which ignores it', async (path) => {
    const body = { name: 'n', color: 'red', nmae: 1 }
    expect(await bench.send({ method: 'POST', path, body })).toMatchObject({
      status: 201,
      json: { name: 'n' },
    })
  })

  test('is the first thing that is told, whatever else is wrong', async () => {
    expect((await bench.send(put('k', { value: 5, ttl: 5 }))).json).toMatchObject({ field: 'ttl' })
  })

  test('shows no more of a long name than its start', async () => {
    const { json } = await bench.send(put('k', { value: 'v', ['n'.repeat(10_000)]: 1 }))
    expect(json).toMatchObject({ field: 'n'.repeat(64) })
  })

  test('does not tell whether a cell exists', async () => {
    const path = `/v1/databases/${UNKNOWN_ID}/restore`
    checkProblem(await bench.send({ method: 'POST', path, body: { verison: 'x' } }), 404, {
      code: 'cell_not_found',
    })
    const listing = { method: 'GET', path: `/v1/databases/${UNKNOWN_ID}/backups?limti=1` }
    checkProblem(await bench.send(listing), 404, { code: 'cell_not_found' })
  })
})

describe('a query with an unknown parameter', () => {
  test.each([
    [`${kv}?perfix=a`, 'perfix', 'prefix'],
    [`${kv}?limit=5&cursr=x`, 'cursr', 'cursor'],
    ['/v1/databases?limits=5', 'limits', 'limit'],
    ['/v1/api-keys?page=5', 'page', ''],
    [`${database}/backups?limti=5`, 'limti', 'limit'],
  ])('%s is refused, with the nearest name', async (path, field, near) => {
    const { status, json } = await bench.send({ method: 'GET', path })
    expect({ status, json }).toMatchObject({ status: 400, json: { code: 'invalid_request', field } })
    if (near !== '') expect(json).toMatchObject({ detail: `${field} is not known: did you mean ${near}?` })
  })

  test('is refused by every route that needs a key', async () => {
    const routes = ROUTES.filter(([, , { needsKey }]) => needsKey)
    for (const [method, route] of routes) {
      bench.newCell()
      const path = route.replace('{id}', bench.cell).replace('{key}', 'k').replace('{key_id}', UNKNOWN_ID)
      const reply = await bench.send({ method, path: `${path}?ttl_seconds=5` })
      expect(saidBy(reply), `${method} ${route}`).toMatch(/^ttl_seconds /)
      checkProblem(reply, 400, { code: 'invalid_request', field: 'ttl_seconds' })
      expect(bench.store.findCell(bench.cell)?.deletedAt).toBeNull()
    }
  })

  test.each([
    ['GET', `${kv}?prefix=a&limit=5&prefix=a`, 'prefix'],
    ['GET', '/v1/databases?limit=5&limit=6', 'limit'],
    ['POST', '/v1/databases?name=a&name=b', 'name'],
  ])('or with one that comes twice is refused: %s %s', async (method, path, field) => {
    const known = bench.store.cells().cells.length
    const body = method === 'POST' ? {} : undefined
    checkProblem(await bench.send({ method, path, body }), 400, { code: 'invalid_request', field })
    expect(bench.store.cells().cells).toHaveLength(known)
  })

  test('is ignored by the health checks, to which monitors add their own', async () => {
    expect(await bench.send({ method: 'GET', path: '/healthz?t=1', key: null })).toMatchObject({
      status: 200,
    })
  })
})
