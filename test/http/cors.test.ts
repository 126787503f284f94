import { describe, expect, onTestFinished, test } from 'vitest'
import { Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES, viaFetch } from '../support/http/transports.ts'

const STUDIO = 'https://studio.example'

/** What a browser sends before a request with a key. */
const preflight = (path: string, origin = STUDIO) => ({
  method: 'OPTIONS',
  path,
  key: null,
  headers: {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
  },
})

function corsOf({ headers }: Reply): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control-')))
}

async function open(corsOrigins?: readonly string[], transport = viaFetch): Promise<Bench> {
  const bench = await Bench.open(transport, { handler: { corsOrigins } })
  onTestFinished(() => bench.close())
  return bench
}

describe.each(TRANSPORTS_AND_NODES)('pages of other origins, through %s', (_name, transport) => {
  test('may ask what they are allowed to, on every path of /v1, without a key', async () => {
    const bench = await open([STUDIO], transport)
    for (const path of ['/v1/databases/{cell}/v2/pipeline', '/v1/databases', '/v1/databases/{cell}/kv/k']) {
      const reply = await bench.send(preflight(path))
      expect(reply.status).toBe(200)
      expect(corsOf(reply)).toMatchObject({
        'access-control-allow-origin': STUDIO,
        'access-control-allow-methods': expect.stringContaining('DELETE'),
        'access-control-allow-headers': expect.stringContaining('authorization'),
      })
    }
  })

  test('may read answers and refusals, and still need a key', async () => {
    const bench = await open([STUDIO], transport)
    const headers = { origin: STUDIO }
    const answered = await bench.send({ method: 'GET', path: '/v1/databases', headers })
    expect([answered.status, corsOf(answered)['access-control-allow-origin']]).toEqual([200, STUDIO])
    const refused = await bench.send({ method: 'GET', path: '/v1/databases', headers, key: null })
    expect([refused.status, corsOf(refused)['access-control-allow-origin']]).toEqual([401, STUDIO])
    expect(refused.headers.get('vary')).toBe('Origin')
  })

  test('of an origin that is not listed may not', async () => {
    const bench = await open([STUDIO], transport)
    const asked = await bench.send(preflight('/v1/databases', 'https://other.example'))
    expect([asked.status, corsOf(asked)]).toEqual([401, {}])
    const headers = { origin: `${STUDIO}.evil.example` }
    expect(corsOf(await bench.send({ method: 'GET', path: '/v1/databases', headers }))).toEqual({})
  })
})

test('by default there is no CORS at all', async () => {
  const bench = await open()
  const reply = await bench.send(preflight('/v1/databases'))
  expect([reply.status, corsOf(reply), reply.headers.get('vary')]).toEqual([401, {}, null])
})

test('* is any origin', async () => {
  const bench = await open(['*'])
  const reply = await bench.send(preflight('/v1/databases', 'null'))
  expect(corsOf(reply)['access-control-allow-origin']).toBe('null')
})

test.each([['x'], ['https://studio.example/'], ['']])('%j is no origin', async (origin) => {
  await expect(open([origin])).rejects.toMatchObject({ code: 'invalid_setting' })
})
