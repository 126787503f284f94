import { expect, test } from 'vitest'
import { type ClientOptions, createClient } from '../../src/client/index.ts'
import { turnsUntil } from '../support/turns.ts'

const BASE = 'http://cells.test'
const OWNER = 'http://10.0.0.7:8787'

/** Two addresses behind one fetch; the first names the second as the owner of every cell. */
function cluster(options: Partial<ClientOptions> = {}, owner = OWNER) {
  const asked: string[] = []
  const down = new Set<string>()
  /** Cut off from all that could vouch for them. */
  const refusing = new Set<string>()
  const fetch: ClientOptions['fetch'] = async (url, init) => {
    asked.push(
      `${init.method ?? 'GET'} ${url}${new Headers(init.headers).has('x-api-key') ? '' : ' without a key'}`,
    )
    const { origin } = new URL(url)
    if (down.has(origin)) throw new TypeError('fetch failed')
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (refusing.has(origin) && !url.endsWith('/healthz'))
      return new Response(JSON.stringify({ status: 503, code: 'not_serving' }), {
        status: 503,
        headers: { 'content-type': 'application/problem+json', 'retry-after': '1' },
      })
    if (origin !== owner) headers['cellstore-owner'] = owner
    return new Response('{}', { headers })
  }
  const client = createClient({ baseUrl: BASE, apiKey: 'k', direct: true, fetch, ...options })
  return { asked, down, refusing, client }
}

const read = { id: 'a', key: 'k' }

test('a client goes to the node that has the cell, once that has answered without a key', async () => {
  const { asked, client } = cluster()
  await client.kvGet(read)
  await turnsUntil(() => asked.length === 2, 'the node is tried')
  await client.kvGet(read)
  await client.kvGet({ id: 'b', key: 'k' })
  await client.listCells()
  expect(asked).toEqual([
    `GET ${BASE}/v1/databases/a/kv/k`,
    `GET ${OWNER}/healthz without a key`,
    `GET ${OWNER}/v1/databases/a/kv/k`,
    `GET ${BASE}/v1/databases/b/kv/k`,
    `GET ${BASE}/v1/databases`,
  ])
})

test('a node that can’t be reached is left alone', async () => {
  const { asked, client, down } = cluster()
  down.add(OWNER)
  await client.kvGet(read)
  await turnsUntil(() => asked.length === 2, 'the node is tried')
  await client.kvGet(read)
  expect(asked.at(-1)).toBe(`GET ${BASE}/v1/databases/a/kv/k`)
})

test('a node that is lost later: what can be repeated is asked for where all is, and the rest fails once', async () => {
  const { asked, client, down } = cluster()
  await client.kvGet(read)
  await turnsUntil(() => asked.length === 2, 'the node is tried')
  await client.kvGet(read)
  down.add(OWNER)
  await expect(client.sql({ id: 'a', sql: 'SELECT 1' })).rejects.toThrow('fetch failed')
  await client.sql({ id: 'a', sql: 'SELECT 1' })
  expect(asked).toContain(`POST ${BASE}/v1/databases/a/sql`)
  const again = cluster()
  await again.client.kvGet(read)
  await turnsUntil(() => again.asked.length === 2, 'the node is tried')
  again.down.add(OWNER)
  await again.client.kvGet(read)
  expect(again.asked.at(-1)).toBe(`GET ${BASE}/v1/databases/a/kv/k`)
})

test('a node that refuses its work is not asked again: others may have its cells, and only they say so', async () => {
  const { asked, client, refusing } = cluster({ wait: async () => {} })
  await client.kvGet(read)
  await turnsUntil(() => asked.length === 2, 'the node is tried')
  refusing.add(OWNER)
  await client.kvGet(read)
  expect(asked.slice(2, 4)).toEqual([`GET ${OWNER}/v1/databases/a/kv/k`, `GET ${BASE}/v1/databases/a/kv/k`])
})

test.each([
  ['unless it is told to', { direct: false }, OWNER],
  ['in the clear if all others go encrypted', { baseUrl: 'https://cells.test' }, OWNER],
  ['to what is no address', {}, 'http://10.0.0.7/path'],
])('the key goes to no other address %s', async (_what, options, owner) => {
  const { asked, client } = cluster(options, owner)
  await client.kvGet(read)
  await client.kvGet(read)
  expect(asked.filter((each) => each.includes('10.0.0.7'))).toEqual([])
})
