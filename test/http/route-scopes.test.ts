import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KeyAccess, KeyScopeOptions, KeySurface } from '../../src/auth/key-scope.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

/** What a key must be, for each route. Written a second time, by hand: a route that is new or has changed fails here. */
interface Needs {
  access: KeyAccess
  /** True: a key that is for key-value entries alone may ask. */
  kv?: true
  /** True: a key that is for some cells alone may ask, about those. */
  cell?: true
  body?: unknown
}

const EXPECTED: Record<string, Needs | 'open'> = {
  'GET /healthz': 'open',
  'GET /readyz': 'open',
  'GET /openapi.json': 'open',
  'GET /v1/status': { access: 'owner' },

  'POST /v1/api-keys': { access: 'write' },
  'GET /v1/api-keys': { access: 'read' },
  'DELETE /v1/api-keys/{key_id}': { access: 'write' },
  'POST /v1/api-keys/{key_id}/rotate': { access: 'write' },

  'POST /v1/accounts': { access: 'owner' },
  'GET /v1/accounts': { access: 'owner' },
  'GET /v1/accounts/{account_id}': { access: 'owner' },
  'POST /v1/accounts/{account_id}/suspend': { access: 'owner' },
  'POST /v1/accounts/{account_id}/resume': { access: 'owner' },
  'PUT /v1/accounts/{account_id}/quotas': { access: 'owner' },
  'POST /v1/accounts/{account_id}/api-keys': { access: 'owner' },

  'POST /v1/databases': { access: 'write' },
  'GET /v1/databases': { access: 'read' },
  'GET /v1/databases/{id}': { access: 'read', cell: true },
  'PATCH /v1/databases/{id}': { access: 'write', body: { name: null } },
  'DELETE /v1/databases/{id}': { access: 'write' },
  'GET /v1/databases/{id}/export': { access: 'read', cell: true },
  'GET /v1/databases/{id}/changes': { access: 'read', cell: true },

  'POST /v1/databases/{id}/sql': { access: 'read', cell: true, body: { sql: 'SELECT 1' } },
  'POST /v1/databases/{id}/batch': {
    access: 'read',
    cell: true,
    body: { operations: [{ sql: 'SELECT 1' }] },
  },

  'POST /v1/databases/{id}/v2/pipeline': { access: 'read', cell: true, body: { requests: [] } },
  'POST /v1/databases/{id}/v3/pipeline': { access: 'read', cell: true, body: { requests: [] } },
  'POST /v1/databases/{id}/v3/cursor': { access: 'read', cell: true, body: { batch: { steps: [] } } },

  'GET /v1/databases/{id}/kv': { access: 'read', kv: true, cell: true },
  'PUT /v1/databases/{id}/kv/{key}': { access: 'write', kv: true, cell: true, body: { value: '1' } },
  'GET /v1/databases/{id}/kv/{key}': { access: 'read', kv: true, cell: true },
  'DELETE /v1/databases/{id}/kv/{key}': { access: 'write', kv: true, cell: true },
  'POST /v1/databases/{id}/kv/ops/incr': { access: 'write', kv: true, cell: true, body: { key: 'n' } },
  'POST /v1/databases/{id}/kv/ops/ttl': { access: 'read', kv: true, cell: true, body: { keys: ['k'] } },
  'POST /v1/databases/{id}/kv/ops/expire': { access: 'write', kv: true, cell: true, body: { key: 'k' } },
  'POST /v1/databases/{id}/kv/ops/mget': { access: 'read', kv: true, cell: true, body: { keys: ['k'] } },
  'POST /v1/databases/{id}/kv/ops/mset': { access: 'write', kv: true, cell: true, body: { entries: [] } },
  'POST /v1/databases/{id}/kv/ops/delete': { access: 'write', kv: true, cell: true, body: { keys: ['x'] } },
  'POST /v1/databases/{id}/kv/ops/getdel': { access: 'write', kv: true, cell: true, body: { key: 'x' } },

  'POST /v1/databases/{id}/backup': { access: 'write', cell: true },
  'POST /v1/databases/{id}/backup/incr': { access: 'write', cell: true },
  'GET /v1/databases/{id}/backups': { access: 'read', cell: true },
  'GET /v1/databases/{id}/retention': { access: 'read', cell: true },
  'POST /v1/databases/{id}/backups/pin': { access: 'owner', body: { version: 'x' } },
  'POST /v1/databases/{id}/backups/unpin': { access: 'owner', body: { version: 'x' } },
  'POST /v1/databases/{id}/restore': { access: 'write', cell: true },
  'GET /v1/databases/{id}/restores/{restore_id}': { access: 'read', cell: true },
  'DELETE /v1/databases/{id}/restores/{restore_id}': { access: 'write', cell: true },
}

/** Of what these requests name, or of a node around the handler. */
const NOTHING_THERE = ['restore_not_found', 'not_found', 'invalid_version']

const LEVELS: KeyAccess[] = ['read', 'write', 'owner']

interface Scope {
  access: KeyAccess
  surface: KeySurface
  ofCell: boolean
}

const SCOPES: Scope[] = LEVELS.flatMap((access) =>
  (['all', 'kv'] as const).flatMap((surface) => [false, true].map((ofCell) => ({ access, surface, ofCell }))),
).filter(({ access, surface, ofCell }) => access !== 'owner' || (surface === 'all' && !ofCell))

function mayAsk(scope: Scope, needs: Needs | 'open'): boolean {
  if (needs === 'open') return true
  const { access, kv, cell } = needs
  const hasAccess = LEVELS.indexOf(scope.access) >= LEVELS.indexOf(access)
  return hasAccess && (scope.surface === 'all' || kv === true) && (!scope.ofCell || cell === true)
}

let bench: Bench
beforeAll(async () => {
  bench = await Bench.open(viaFetch)
})
afterAll(() => bench.close())

/** A key of the scope, in a new cell with an entry and a backup. */
async function newKey({ ofCell, ...scope }: Scope): Promise<string> {
  bench.newCell()
  bench.forget('keyid')
  bench.forget('account')
  bench.store.openCell(bench.cell).kv.put('k', 'v')
  await bench.store.backups.snapshot(bench.cell)
  const options: KeyScopeOptions = { ...scope, cellIds: ofCell ? [bench.cell] : null }
  return bench.store.apiKeys.create(bench.accountId, options).key
}

function askFor(method: string, route: string, needs: Needs | 'open'): Ask {
  const path = route
    .replace('{id}', '{cell}')
    .replace('{key}', 'k')
    .replace('{key_id}', '{keyid}')
    .replace('{account_id}', '{account}')
    .replace('{restore_id}', 'x')
  const body = needs === 'open' ? undefined : needs.body
  return { method, path, ...(body === undefined ? {} : { body }) }
}

/** Hrana writes them in capitals. */
function codeOf({ json }: Reply): string | undefined {
  return (json as { code?: string } | undefined)?.code?.toLowerCase()
}

test('every route has a decision for every scope, and no other row is decided', () => {
  expect(ROUTES.map(([method, route]) => `${method} ${route}`).sort()).toEqual(Object.keys(EXPECTED).sort())
})

describe.each(SCOPES)('a key with $access, $surface, of one cell: $ofCell', (scope) => {
  test.each(ROUTES.map(([method, route]) => [method, route]))('%s %s', async (method = '', route = '') => {
    const needs = EXPECTED[`${method} ${route}`] as Needs | 'open'
    const reply = await bench.send({ ...askFor(method, route, needs), key: await newKey(scope) })
    const code = codeOf(reply)
    if (mayAsk(scope, needs)) {
      expect(code).not.toBe('forbidden')
      expect(reply.status < 400 || NOTHING_THERE.includes(code ?? '')).toBe(true)
    } else expect({ status: reply.status, code }).toEqual({ status: 403, code: 'forbidden' })
  })
})

describe('a key of one cell', () => {
  const ofCells = ROUTES.filter(([, route]) => EXPECTED[`GET ${route}`] !== 'open' && route.includes('{id}'))

  test.each(ofCells.map(([method, route]) => [method, route]))(
    'gets of %s %s the answer for a cell that does not exist, if it is another one of its account',
    async (method = '', route = '') => {
      const key = await newKey({ access: 'write', surface: 'all', ofCell: true })
      const other = bench.cell
      bench.newCell()
      const needs = EXPECTED[`${method} ${route}`] as Needs
      if (needs.cell !== true) return
      bench.store.openCell(bench.cell).kv.put('k', 'v')
      await bench.store.backups.snapshot(bench.cell)
      const ask = { ...askFor(method, route, needs), key }
      const [hidden, absent] = [await bench.send(ask), await bench.send(asksOf(ask, bench.accountId))]
      expect([hidden.status, codeOf(hidden)]).toEqual([404, 'cell_not_found'])
      const without = ({ request_id: _, ...document }: Record<string, unknown>) => document
      expect(without(hidden.json as never)).toEqual(without(absent.json as never))
      bench.cell = other
    },
  )

  /** The same of a UUID that no cell has. */
  const asksOf = (ask: Ask, id: string): Ask => ({ ...ask, path: ask.path.replace('{cell}', id) })
})
