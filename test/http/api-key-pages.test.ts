import { expect, test } from 'vitest'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

const path = '/v1/api-keys'

function namesIn(json: unknown): (string | null)[] {
  return (json as { name: string | null }[]).map(({ name }) => name)
}

test('API keys come in pages: an array, with a Link to the next page', async () => {
  const bench = await Bench.open(viaFetch)
  for (const name of ['a', 'b', 'c', 'd']) bench.store.apiKeys.create(bench.accountId, { name })
  const first = await bench.send({ method: 'GET', path: `${path}?limit=3` })
  expect(namesIn(first.json)).toEqual(['d', 'c', 'b'])
  const [, next] = /^<(\S+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
  expect(next).toMatch(/^\/v1\/api-keys\?limit=3&cursor=[\w-]+$/)
  const second = await bench.send({ method: 'GET', path: next as string })
  expect(namesIn(second.json).slice(0, 1)).toEqual(['a'])
  expect(second.headers.get('link')).toBeNull()
  await bench.close()
})

test('A list of API keys without parameters has the newest thousand', async () => {
  const bench = await Bench.open(viaFetch)
  for (let i = 0; i < 1_000; i++) bench.store.apiKeys.create(bench.accountId)
  const reply = await bench.send({ method: 'GET', path })
  expect(reply.json).toHaveLength(1_000)
  expect(reply.headers.get('link')).toContain('rel="next"')
  await bench.close()
})

test.each(['limit=0', 'limit=1001', 'limit=x', 'cursor=x', 'cursor='])('%s is refused', async (query) => {
  const bench = await Bench.open(viaFetch)
  const reply = await bench.send({ method: 'GET', path: `${path}?${query}` })
  expect(reply).toMatchObject({ status: 400, json: { code: 'invalid_request' } })
  await bench.close()
})
