import { expect, onTestFinished, test } from 'vitest'
import { Bench, type BenchOptions } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'

async function open(options: BenchOptions = {}): Promise<Bench> {
  const bench = await Bench.open(viaFetch, options)
  onTestFinished(() => bench.close())
  return bench
}

const MIB = 1_048_576
const get = { method: 'GET', path: '/v1/databases' }
const setOwn = (bench: Bench, quotas: object) =>
  bench.send({ method: 'PUT', path: `/v1/accounts/${bench.accountId}/quotas`, body: quotas })

test('a quota of requests holds from the next request on, for its account alone, and can be taken away', async () => {
  const bench = await open()
  await setOwn(bench, { requests_per_second: 1 })
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await bench.send(get)).status)
  expect(statuses).toContain(429)
  const refused = await bench.send(get)
  expect(refused.json).toMatchObject({ code: 'rate_limited', limit: 1 })
  expect((refused.json as { detail: string }).detail).toContain('quotas.requestsPerSecond is 1')
  expect((await bench.send({ ...get, key: bench.strangerKey })).status).toBe(200)
  await setOwn(bench, {})
  expect((await bench.send(get)).status).toBe(200)
})

test('a quota of requests above the rate of all lets its account make more', async () => {
  const bench = await open({ handler: { rate: { perSecond: 0.001, burst: 1 } } })
  await setOwn(bench, { requests_per_second: 1_000 })
  for (let i = 0; i < 20; i++) expect((await bench.send(get)).status).toBe(200)
  await bench.send({ ...get, key: bench.strangerKey })
  expect((await bench.send({ ...get, key: bench.strangerKey })).status).toBe(429)
})

async function fill(bench: Bench): Promise<number> {
  const value = 'v'.repeat(200_000)
  for (let i = 0; i < 30; i++) {
    const path = `/v1/databases/{cell}/kv/k${i}`
    const { status } = await bench.send({ method: 'PUT', path, body: { value } })
    if (status !== 200) return status
  }
  return 200
}

test('a quota of bytes bounds an account of a store that has none, and another account not', async () => {
  const bench = await open({ store: { checkpointBytes: 65_536 } })
  await setOwn(bench, { bytes_max: MIB / 64 })
  await bench.send({ method: 'PUT', path: '/v1/databases/{cell}/kv/first', body: { value: 'v' } })
  const refused = await bench.send({ method: 'POST', path: '/v1/databases', body: {} })
  expect(refused.json).toMatchObject({ code: 'quota_exceeded', limit: MIB / 64 })
  expect(await fill(bench)).toBe(403)
  bench.newCell(bench.strangerId)
  bench.key = bench.strangerKey
  expect(await fill(bench)).toBe(200)
})

test('a quota of bytes counts what was stored while there was none', async () => {
  const bench = await open({ store: { checkpointBytes: 65_536 } })
  await setOwn(bench, { bytes_max: 100 * MIB })
  await bench.send({ method: 'PUT', path: '/v1/databases/{cell}/kv/first', body: { value: 'v' } })
  await setOwn(bench, {})
  expect(await fill(bench)).toBe(200)
  await setOwn(bench, { bytes_max: MIB })
  const put = () => bench.send({ method: 'PUT', path: '/v1/databases/{cell}/kv/k', body: { value: 'v' } })
  await put()
  expect((await bench.send({ method: 'POST', path: '/v1/databases', body: {} })).status).toBe(403)
})

test('an owner’s key can’t suspend its own account', async () => {
  const bench = await open()
  const { key } = bench.store.apiKeys.create(bench.accountId, { access: 'owner' })
  const path = `/v1/accounts/${bench.accountId}/suspend`
  const { status, json } = await bench.send({ method: 'POST', path, key })
  expect({ status, json }).toMatchObject({ status: 403, json: { code: 'forbidden' } })
  expect(bench.store.accounts.find(bench.accountId)?.suspendedAt).toBeNull()
})

test('deleted cells that come back at once have together no more than the quota of cells', async () => {
  const bench = await open({ store: { quotas: { cellsMax: 2 } } })
  const cells = [bench.cell]
  for (let i = 0; i < 3; i++) {
    const id = cells.at(-1) as string
    await bench.store.backups.snapshot(id)
    bench.store.deleteCell(id)
    cells.push(bench.newCell())
  }
  const create = () => bench.send({ method: 'POST', path: '/v1/databases', body: {} })
  const restore = (id: string | undefined) =>
    bench.send({ method: 'POST', path: `/v1/databases/${id}/restore`, body: {} })
  bench.objectStore.gates = (call) => call === 'get'
  const restores = cells.slice(0, 3).map(restore)
  await bench.objectStore.arrival()
  expect((await create()).json).toMatchObject({ code: 'quota_exceeded', limit: 2, usage: 2 })
  bench.objectStore.open()
  const replies = await Promise.all(restores)
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 403, 403])
  expect(bench.store.cells({ accountId: bench.accountId }).cells).toHaveLength(2)
  bench.store.deleteCell(cells[3] as string)
  expect((await create()).status).toBe(201)
})

test('a restore that fails gives its cell’s room in the quota back', async () => {
  const bench = await open({ store: { quotas: { cellsMax: 1 } } })
  const { version } = await bench.store.backups.snapshot(bench.cell)
  bench.store.deleteCell(bench.cell)
  const body = { version: version.replace(/\d{8}T/, '20250101T') }
  const failed = await bench.send({ method: 'POST', path: '/v1/databases/{cell}/restore', body })
  expect(failed.status).toBe(404)
  expect((await bench.send({ method: 'POST', path: '/v1/databases', body: {} })).status).toBe(201)
})
