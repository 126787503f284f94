import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { prefersAsync } from '../../src/http/routes/restore-actions.ts'
import { Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES, viaFetch } from '../support/http/transports.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { COUNT, checkEveryReply, checkProblem, TIME, UNKNOWN_ID, UUID, VERSION } from './rows/row.ts'

/** `Prefer: respond-async` on a restore: 202, and a status to ask for. */

const RUNNING = {
  id: UUID,
  state: 'running',
  bytes_done: 0,
  bytes_total: null,
  eta_ms: null,
  started_at: TIME,
  ended_at: null,
  result: null,
  problem: null,
}

let bench: Bench

async function backedUp(): Promise<void> {
  bench.store.openCell(bench.cell).kv.put('k', 'as it was')
  await bench.store.backups.snapshot(bench.cell)
  bench.store.openCell(bench.cell).kv.put('k', 'newer')
}

function valueNow(): string | undefined {
  return bench.store.openCell(bench.cell).kv.get('k') ?? undefined
}

function begin(body: unknown = {}, key = bench.key): Promise<Reply> {
  const headers = { prefer: 'respond-async' }
  return bench.send({ method: 'POST', path: '/v1/databases/{cell}/restore', body, headers, key })
}

/** The restore's status; asks again until it has ended. */
async function ended(location: string, key = bench.key): Promise<Record<string, unknown>> {
  for (let i = 0; i < 100_000; i++) {
    await setImmediate()
    const { json } = await bench.send({ method: 'GET', path: location, key })
    if ((json as { state?: string }).state !== 'running') return json as Record<string, unknown>
  }
  throw new Error('The restore did not end.')
}

/** A restore of {cell} that waits at the object store. */
async function held(key?: string): Promise<string> {
  bench.objectStore.gates = (call) => call === 'get'
  const reply = await begin({}, key)
  expect(reply.status).toBe(202)
  await bench.objectStore.arrival()
  return reply.headers.get('location') as string
}

describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, transport) => {
  beforeEach(async () => {
    bench = await Bench.open(transport)
    await backedUp()
  })
  afterEach(() => bench.close())

  test('a restore is answered at once, shows how far it is, and then its result', async () => {
    bench.objectStore.gates = (call) => call === 'get'
    const ask = { method: 'POST', path: '/v1/databases/{cell}/restore' }
    const reply = await bench.send({ ...ask, headers: { prefer: 'wait=5, Respond-Async; x=y' } })
    checkEveryReply(reply, bench, ask)
    expect([reply.status, reply.json]).toEqual([202, RUNNING])
    expect(reply.headers.get('preference-applied')).toBe('respond-async')
    const location = reply.headers.get('location') as string
    const { id } = reply.json as { id: string }
    expect(location.endsWith(`/v1/databases/${bench.cell}/restores/${id}`)).toBe(true)
    await bench.objectStore.arrival()
    expect((await bench.send({ method: 'GET', path: location })).json).toEqual({ ...RUNNING, id })
    expect(valueNow()).toBe('newer')
    bench.objectStore.open()
    const status = await ended(location)
    expect(status).toEqual({
      ...RUNNING,
      id,
      state: 'succeeded',
      bytes_done: COUNT,
      bytes_total: COUNT,
      ended_at: TIME,
      result: {
        restored: true,
        version: VERSION,
        kind: 'snapshot',
        size_bytes: COUNT,
        duration_ms: COUNT,
        timestamp: TIME,
        replaced_at: expect.any(String),
      },
    })
    expect(status['bytes_done']).toBe(status['bytes_total'])
    expect(valueNow()).toBe('as it was')
  })

  test('without the preference nothing changes', async () => {
    const ask = {
      method: 'POST',
      path: '/v1/databases/{cell}/restore',
      headers: { prefer: 'handling=strict' },
    }
    const reply = await bench.send(ask)
    expect([reply.status, reply.headers.get('location')]).toEqual([200, null])
    expect(reply.headers.get('preference-applied')).toBeNull()
    expect(reply.json).toMatchObject({ restored: true })
  })

  test('what fails later is the status’s problem, with the id of the request', async () => {
    const location = await held()
    bench.objectStore.failure = 'object_store_error'
    bench.store.deleteCell(bench.cell)
    bench.objectStore.open()
    const status = await ended(location)
    expect(status).toMatchObject({ state: 'failed', ended_at: TIME, result: null, eta_ms: null })
    expect(status['problem']).toMatchObject({ status: 404, code: 'cell_not_found', request_id: UUID })
  })

  test('what is refused at once is answered as ever', async () => {
    const reply = await begin({ version: 'latest' })
    checkProblem(reply, 400, { code: 'invalid_version', field: 'version' })
    const location = await held()
    checkProblem(await begin(), 409, { code: 'restore_in_progress' })
    checkProblem(await begin({}, bench.strangerKey), 404, { code: 'cell_not_found' })
    bench.objectStore.open()
    expect(await ended(location)).toMatchObject({ state: 'succeeded' })
  })

  test('one that is cancelled changes nothing and says so; another one runs after it', async () => {
    const location = await held()
    const cancel = bench.send({ method: 'DELETE', path: location })
    bench.objectStore.open()
    const { status, json } = await cancel
    expect({ status, json }).toMatchObject({ status: 200, json: { state: 'failed', result: null } })
    expect((json as { problem: unknown }).problem).toMatchObject({ status: 409, code: 'restore_canceled' })
    expect(await ended(location)).toEqual(json)
    expect(valueNow()).toBe('newer')
    const next = (await begin()).headers.get('location') as string
    expect(await ended(next)).toMatchObject({ state: 'succeeded' })
    expect(valueNow()).toBe('as it was')
    // Too late: it stays what it is.
    expect((await bench.send({ method: 'DELETE', path: next })).json).toMatchObject({ state: 'succeeded' })
    expect(valueNow()).toBe('as it was')
  })

  test('the status is the account’s alone, and the cell’s', async () => {
    const location = await held()
    const get = (path: string, key = bench.key) => bench.send({ method: 'GET', path, key })
    checkProblem(await get(location, bench.strangerKey), 404, { code: 'cell_not_found' })
    checkProblem(await get(location.replace(bench.cell, UNKNOWN_ID)), 404, { code: 'cell_not_found' })
    const other = bench.store.createCell({ accountId: bench.accountId }).id
    checkProblem(await get(location.replace(bench.cell, other)), 404, { code: 'restore_not_found' })
    checkProblem(await get(`${location}x`), 404, { code: 'restore_not_found' })
    const others = await bench.send({ method: 'DELETE', path: location, key: bench.strangerKey })
    checkProblem(others, 404, { code: 'cell_not_found' })
    bench.objectStore.open()
    expect(await ended(location)).toMatchObject({ state: 'succeeded' })
  })
})

describe('restores that were answered before their end', () => {
  beforeEach(async () => {
    bench = await Bench.open(viaFetch)
    await backedUp()
  })
  afterEach(() => bench.close())

  test('tell nobody whether a cell that is not its own exists', async () => {
    const ofAnother = await begin({}, bench.strangerKey)
    bench.cell = UNKNOWN_ID
    const ofNobody = await begin({}, bench.strangerKey)
    for (const reply of [ofAnother, ofNobody]) checkProblem(reply, 404, { code: 'cell_not_found' })
    checkProblem(await begin({ version: 'x' }), 404, { code: 'cell_not_found' })
  })

  test('do not start if the key was revoked while they waited', async () => {
    const { id, key } = bench.store.apiKeys.create(bench.accountId)
    bench.objectStore.hold()
    const backup = bench.send({ method: 'POST', path: '/v1/databases/{cell}/backup' })
    await bench.objectStore.arrival()
    const location = (await begin({}, key)).headers.get('location') as string
    bench.store.apiKeys.revoke(bench.accountId, id)
    bench.objectStore.open()
    expect((await backup).status).toBe(200)
    checkProblem(await bench.send({ method: 'GET', path: location, key }), 401, { code: 'unauthorized' })
    expect(await ended(location)).toMatchObject({ state: 'failed', problem: { code: 'unauthorized' } })
    expect(valueNow()).toBe('newer')
  })

  test('bring no cell back if the quota is full when their turn comes', async () => {
    await bench.close()
    bench = await Bench.open(viaFetch, { store: { quotas: { cellsMax: 2 } } })
    await backedUp()
    bench.objectStore.hold()
    const backup = bench.send({ method: 'POST', path: '/v1/databases/{cell}/backup' })
    await bench.objectStore.arrival()
    await bench.send({ method: 'DELETE', path: '/v1/databases/{cell}' })
    const location = (await begin()).headers.get('location') as string
    for (let i = 0; i < 2; i++) bench.store.createCell({ accountId: bench.accountId })
    bench.objectStore.open()
    await backup
    const problem = { code: 'quota_exceeded', status: 403 }
    expect(await ended(location)).toMatchObject({ state: 'failed', problem })
  })

  test('end with the store: those that do not end until its deadline are cancelled and leave nothing', async () => {
    await held()
    await bench.store.close({ deadlineMs: 0 })
    expect(filesBelow(bench.data.path).filter((file) => file.includes('incoming'))).toEqual([])
    await bench.serve(await bench.data.open({ clock: bench.clock, objectStore: bench.objectStore }), viaFetch)
    expect(valueNow()).toBe('newer')
  })
})

test.each([
  ['respond-async', true],
  ['Respond-Async', true],
  ['respond-async, wait=10', true],
  ['handling=lenient , respond-async;foo="a,b"', true],
  ['respond-async=""', true],
  ['', false],
  ['respond', false],
  ['respond-async-please', false],
  ['note="a, respond-async"', false],
  ['note="a, respond-async', false],
  ['note="\\", respond-async\\', false],
  ['respond-async=no', false],
])('the header %j asks for it: %s', (header, asks) => {
  expect(prefersAsync(header)).toBe(asks)
  expect(prefersAsync(undefined)).toBe(false)
})
