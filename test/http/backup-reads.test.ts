import { beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

const list = { method: 'GET', path: '/v1/databases/{cell}/backups' }
const plan = { method: 'POST', path: '/v1/databases/{cell}/restore', body: { dry_run: true } }

const bench = Bench.perTest(viaFetch, { store: { quotas: { backupReadsAtOnce: 1 } } })
beforeEach(async () => {
  await bench.store.backups.snapshot(bench.cell)
})

describe.each([
  ['A plan', plan],
  ['A list of backups', list],
])('%s', (_, ask) => {
  test('is refused while the account has its share of them under way, and a neighbour’s is not', async () => {
    bench.objectStore.hold()
    const first = bench.send(ask)
    await bench.objectStore.arrival()
    for (const again of [list, plan]) {
      const refused = await bench.send(again)
      expect(refused).toMatchObject({ status: 429, json: { code: 'rate_limited', limit: 1, usage: 1 } })
      expect((refused.json as { detail: string }).detail).toContain('quotas.backupReadsAtOnce is 1')
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    const { cell } = bench
    bench.newCell(bench.strangerId)
    const neighbours = bench.send({ ...list, key: bench.strangerKey })
    bench.cell = cell
    bench.objectStore.open()
    expect((await neighbours).status).toBe(200)
    expect((await first).status).toBe(200)
    expect((await bench.send(ask)).status).toBe(200)
  })

  test('ends with its client, and the next one has its place', async () => {
    const handler = createHandler(bench.store)
    const abort = new AbortController()
    const request = (signal?: AbortSignal) =>
      new Request(`http://cells.test${bench.fill(ask.path)}`, {
        method: ask.method,
        headers: { 'x-api-key': bench.key, ...('body' in ask && { 'content-type': 'application/json' }) },
        ...('body' in ask && { body: JSON.stringify(ask.body) }),
        ...(signal && { signal }),
      })
    bench.objectStore.hold()
    const gone = handler(request(abort.signal)).catch(() => {})
    await bench.objectStore.arrival()
    abort.abort()
    await gone
    expect(bench.objectStore.waiting).toBe(0)
    const next = handler(request())
    await bench.objectStore.arrival()
    bench.objectStore.open()
    expect((await next).status).toBe(200)
  })
})
