import fs from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { DEFAULT_MEMORY_LIMITS } from '../../src/http/quotas/memory-budgets.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

/** An account sends many requests that are work for the event loop; then a neighbour sends one. */

const MANY = 24

let bench: Bench
let neighbourCell: string

beforeEach(async () => {
  bench = await Bench.open(viaFetch)
  const attacked = bench.cell
  neighbourCell = bench.newCell(bench.strangerId)
  bench.cell = attacked
})

afterEach(() => bench.close())

function cellDirectories(): string[] {
  const { cells } = bench.data.paths
  return fs.readdirSync(cells).flatMap((folder) => fs.readdirSync(path.join(cells, folder)))
}

/**
 * How many of the account's requests are answered before the neighbour's one, which comes last.
 *
 * @param refusal the status of all of them; undefined: they succeed
 */
async function answeredBefore(asks: readonly Ask[], neighbours: Ask, refusal?: number): Promise<number> {
  let answered = 0
  const all = asks.map(async (ask) => {
    const { status } = await bench.send(ask)
    if (refusal === undefined) expect(status).toBeLessThan(300)
    else expect(status).toBe(refusal)
    answered++
  })
  const { status } = await bench.send({ ...neighbours, key: bench.strangerKey })
  expect(status).toBeLessThan(300)
  const before = answered
  await Promise.all(all)
  return before
}

const put = (cell: string, i: number, length: number): Ask => ({
  method: 'PUT',
  path: `/v1/databases/${cell}/kv/k${i}`,
  body: { value: 'v'.repeat(length) },
})
const many = (ask: (i: number) => Ask): Ask[] => Array.from({ length: MANY }, (_, i) => ask(i))

describe.each([
  ['large bodies', () => many((i) => put(bench.cell, i, 300_000))],
  ['creations of cells', () => many(() => ({ method: 'POST', path: '/v1/databases', body: {} }))],
  ['creations of keys', () => many(() => ({ method: 'POST', path: '/v1/api-keys', body: {} }))],
])('%s of an account', (_, asks) => {
  test('hold up a neighbour’s small request for few of them', async () => {
    expect(await answeredBefore(asks(), put(neighbourCell, 0, 1))).toBeLessThan(6)
  })

  test('hold up a neighbour’s own large body for few of them', async () => {
    expect(await answeredBefore(asks(), put(neighbourCell, 0, 300_000))).toBeLessThan(8)
  })

  test('hold up a neighbour’s creation for few of them', async () => {
    const creation = { method: 'POST', path: '/v1/api-keys', body: {} }
    expect(await answeredBefore(asks(), creation)).toBeLessThan(MANY / 2)
  })
})

test('deletions of an account hold up a neighbour’s for few of them', async () => {
  // Twice as many: on a busy machine some are done before the neighbour's request is there.
  const cells = Array.from(
    { length: 2 * MANY },
    () => bench.store.createCell({ accountId: bench.accountId }).id,
  )
  const deletion = (cell: string) => ({ method: 'DELETE', path: `/v1/databases/${cell}` })
  expect(await answeredBefore(cells.map(deletion), deletion(neighbourCell))).toBeLessThan(MANY)
})

test.each([
  ['POST', '/v1/databases'],
  ['POST', '/v1/api-keys'],
  ['DELETE', '/v1/databases/{cell}'],
])('%s %s is refused if the key was revoked while it waited for its turn', async (method, resource) => {
  const { id, key } = bench.store.apiKeys.create(bench.accountId)
  const before = [bench.store.cells().cells.length, bench.store.apiKeys.list(bench.accountId).length]
  const waiting = Array.from({ length: 200 }, async (_, i) => {
    await bench.store.turns.next(bench.accountId)
    if (i === 100) bench.store.apiKeys.revoke(bench.accountId, id)
  })
  const { status } = await bench.send({ method, path: resource, key, ...(method === 'POST' && { body: {} }) })
  await Promise.all(waiting)
  expect(status).toBe(401)
  const after = [bench.store.cells().cells.length, bench.store.apiKeys.list(bench.accountId).length + 1]
  expect(after).toEqual(before)
})

test('a creation that is repeated while the first one is under way makes one cell, and no file remains of the other', async () => {
  const ask = { method: 'POST', path: '/v1/databases', body: {}, headers: { 'Idempotency-Key': 'k' } }
  const before = bench.store.cells().cells.length
  const replies = await Promise.all([1, 2, 3, 4].map(() => bench.send(ask)))
  expect(replies.map(({ status }) => status)).toEqual([201, 201, 201, 201])
  expect(new Set(replies.map(({ json }) => (json as { id: string }).id)).size).toBe(1)
  expect(replies.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')).toHaveLength(3)
  expect(bench.store.cells().cells).toHaveLength(before + 1)
  expect(cellDirectories()).toHaveLength(before + 1)
})

test('creations at the same time do not exceed the quota of cells', async () => {
  const quotas = { cellsMax: 5 }
  await bench.close()
  bench = await Bench.open(viaFetch, { store: { quotas } })
  const ask = { method: 'POST', path: '/v1/databases', body: {} }
  const replies = await Promise.all(Array.from({ length: 10 }, () => bench.send(ask)))
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(4)
  expect(replies.filter(({ status }) => status === 403)).toHaveLength(6)
  expect(bench.store.cells().cells).toHaveLength(5)
  expect(cellDirectories()).toHaveLength(5)
})

describe('hundreds of small requests at once hold up a neighbour’s small one for few of them', () => {
  const HUNDREDS = Array.from({ length: 300 }, (_, i) => i)

  test('if they are served', async () => {
    const asks = HUNDREDS.map((i) => put(bench.cell, i, 1))
    expect(await answeredBefore(asks, put(neighbourCell, 0, 1))).toBeLessThan(150)
  })

  test('if they are refused before their bodies are read', async () => {
    await bench.serve(bench.store, viaFetch, { limits: { bodyBytesMax: 100 } })
    const asks = HUNDREDS.map((i) => put(bench.cell, i, 200))
    expect(await answeredBefore(asks, put(neighbourCell, 0, 1), 413)).toBeLessThan(60)
  })

  test('if they are refused for their rate', async () => {
    await bench.serve(bench.store, viaFetch, { rate: { perSecond: 1, burst: 1 } })
    const get = { method: 'GET', path: `/v1/databases/${bench.cell}/kv/k` }
    await bench.send(get)
    const asks = HUNDREDS.map(() => get)
    expect(await answeredBefore(asks, put(neighbourCell, 0, 1), 429)).toBeLessThan(60)
  })
})

test.each([
  ['the rate', { rate: { perSecond: 1, burst: 1 } }],
  [
    'want of room for its body',
    { limits: { memory: { ...DEFAULT_MEMORY_LIMITS, bodiesPerAccount: 100_000 } } },
  ],
  ['its length', { limits: { bodyBytesMax: 100 } }],
])('a refusal for %s waits for one turn', async (_, options) => {
  await bench.serve(bench.store, viaFetch, options)
  await bench.send(put(bench.cell, 0, 1))
  const small = vi.spyOn(bench.store.turns, 'nextSmall')
  const { status } = await bench.send(put(bench.cell, 0, 200_000))
  expect([413, 429]).toContain(status)
  expect(small).toHaveBeenCalledTimes(1)
})

test('a revocation passes hundreds of requests of the key’s account that wait', async () => {
  const { id } = bench.store.apiKeys.create(bench.accountId)
  let answered = 0
  const all = Array.from({ length: 300 }, async (_, i) => {
    await bench.send(put(bench.cell, i, 1))
    answered++
  })
  const { status } = await bench.send({ method: 'DELETE', path: `/v1/api-keys/${id}` })
  expect(status).toBe(200)
  expect(answered).toBeLessThan(200)
  await Promise.all(all)
})
