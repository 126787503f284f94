import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { makeApiKey } from '../../src/auth/api-key.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES } from '../support/http/transports.ts'
import { checkEveryReply, checkProblem, saidBy, UNKNOWN_ID } from './rows/row.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']

interface RouteCase {
  method: string
  path: string
  needsKey: boolean
}

const routes: RouteCase[] = ROUTES.map(([method, path, { needsKey }]) => ({
  method,
  path: path.replace('{id}', '{cell}').replace('{key}', 'k').replace('{key_id}', UNKNOWN_ID),
  needsKey,
}))
const keyed = routes.filter(({ needsKey }) => needsKey)

describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, transport) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.open(transport)
  })
  afterAll(() => bench.close())
  beforeEach(() => void bench.newCell())

  async function send(ask: Ask): Promise<Reply> {
    const reply = await bench.send(ask)
    checkEveryReply(reply, bench, ask)
    return reply
  }

  describe('without a valid key', () => {
    const keys: [what: string, headers: () => Record<string, string>][] = [
      ['no key', () => ({})],
      ['an empty key', () => ({ authorization: 'Bearer ' })],
      ['a malformed key', () => ({ 'x-api-key': 'cell_sk_x' })],
      [
        'a key with a typo',
        () => ({ 'x-api-key': `${bench.key.slice(0, -1)}${bench.key.endsWith('0') ? '1' : '0'}` }),
      ],
      ['an unknown key', () => ({ 'x-api-key': makeApiKey((size) => new Uint8Array(size)) })],
      ['a revoked key', revokedKey],
      ['a valid key under a wrong scheme', () => ({ authorization: `Basic ${bench.key}` })],
      [
        'a malformed key before a valid bearer',
        () => ({ 'x-api-key': 'x', authorization: `Bearer ${bench.key}` }),
      ],
      ['two keys at once', () => ({ 'x-api-key': `${bench.key}, ${bench.key}` })],
    ]

    function revokedKey(): Record<string, string> {
      const { id, key } = bench.store.apiKeys.create(bench.accountId)
      bench.store.apiKeys.revoke(bench.accountId, id)
      return { 'x-api-key': key }
    }

    test.each(keys)('%s is answered 401, always in the same words', async (_what, headers) => {
      const expected = await send({ method: 'GET', path: '/v1/api-keys', key: null })
      for (const { method, path } of keyed) {
        const reply = await send({ method, path, key: null, headers: headers() })
        checkProblem(reply, 401, { code: 'unauthorized' })
        expect(saidBy(reply)).toBe(saidBy(expected))
        expect(reply.headers.get('www-authenticate')).toBe('Bearer')
      }
    })

    test.each(['/', '/v1', '/v1/nothing', '/v2/databases', '/favicon.ico'])(
      '%s does not tell that it is none',
      async (path) => {
        checkProblem(await send({ method: 'GET', path, key: null }), 401, { code: 'unauthorized' })
      },
    )

    test('a body is not even looked at', async () => {
      const reply = await send({
        method: 'POST',
        path: '/v1/databases',
        raw: '{',
        headers: { 'content-type': 'text/csv' },
        key: null,
      })
      checkProblem(reply, 401, { code: 'unauthorized' })
    })
  })

  test.each([
    ['x-api-key', (key: string) => ({ 'x-api-key': key })],
    ['Authorization: Bearer', (key: string) => ({ authorization: `Bearer ${key}` })],
    ['authorization: bearer, in any case', (key: string) => ({ authorization: `bearer  ${key}` })],
  ])('a key is taken from %s', async (_what, headers) => {
    expect(
      (await send({ method: 'GET', path: '/v1/api-keys', key: null, headers: headers(bench.key) })).status,
    ).toBe(200)
  })

  test.each(['/healthz', '/readyz'])('%s needs no key', async (path) => {
    expect(await send({ method: 'GET', path, key: null })).toMatchObject({ status: 200 })
    checkProblem(await send({ method: 'POST', path, key: null }), 401, { code: 'unauthorized' })
  })

  test.each([
    '/',
    '/v1',
    '/v1/',
    '/v1/nothing',
    '/V1/databases',
    '/v1//databases',
    '/v1/databases/{cell}/',
    '/v1/databases/{cell}/sql/',
    '/v1/databases/{cell}/kv/ops/nothing',
    '/v1/databases/{cell}/kv/a/b',
    '/v1/databases/{cell}/nothing',
    '/v1/api%2Dkeys',
    '/healthz/',
  ])('%s is no route', async (path) => {
    checkProblem(await send({ method: 'GET', path }), 404, { code: 'not_found' })
  })

  describe('a method that the route does not take', () => {
    const paths = [...new Set(routes.map(({ path }) => path))]
    test.each(paths)('at %s is answered 405 and those that it does take', async (path) => {
      const methods = routes.filter((route) => route.path === path).map(({ method }) => method)
      const allowed = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
      for (const method of METHODS.filter((other) => !allowed.includes(other) && other !== 'HEAD')) {
        const reply = await send({ method, path })
        checkProblem(reply, 405, { code: 'method_not_allowed', allowed })
        expect(reply.headers.get('allow')).toBe(allowed.join(', '))
      }
    })
  })

  describe('the request id', () => {
    const path = '/healthz'

    test.each(['abc-123', '0af7651916cd43dd8448eb211c80319c', 'a.b:c/d+e=f@g_h', 'x'.repeat(128)])(
      '%s is kept',
      async (id) => {
        expect(
          (await send({ method: 'GET', path, headers: { 'x-request-id': id } })).headers.get('x-request-id'),
        ).toBe(id)
      },
    )

    test.each(['x'.repeat(129), '<script>', 'a b', 'a,b', 'é', '"'])('%s is replaced', async (id) => {
      const reply = await send({ method: 'GET', path, headers: { 'x-request-id': id } })
      expect(reply.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    })

    test('is never a key', async () => {
      const reply = await send({ method: 'GET', path: '/v1/nothing', headers: { 'x-request-id': bench.key } })
      expect(reply.headers.get('x-request-id')).not.toBe(bench.key)
    })

    test('is another one each time', async () => {
      const [a, b] = [await send({ method: 'GET', path }), await send({ method: 'GET', path })]
      expect(a.headers.get('x-request-id')).not.toBe(b.headers.get('x-request-id'))
    })
  })
})
