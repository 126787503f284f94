import { afterEach, expect, test } from 'vitest'
import { FakeClock } from '../support/fake-clock.ts'
import { Bench, type BenchOptions } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { UNKNOWN_ID } from './rows/row.ts'

/** No answer tells whether a cell exists that is another account's: not if quotas are used up or the object store fails, either. */

let bench: Bench
afterEach(() => bench.close())

/** Another account's cells: one that exists, one that was deleted, each with a backup; and an id of nobody's. */
let ids: string[]

const open = async (options: BenchOptions = {}) => {
  bench = await Bench.open(viaFetch, {
    ...options,
    store: {
      backups: { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null },
      ...options.store,
    },
  })
  const { store, strangerId, objectStore } = bench
  const strangers = [store.createCell({ accountId: strangerId }), store.createCell({ accountId: strangerId })]
  for (const { id } of strangers) await store.backups.snapshot(id)
  store.deleteCell(strangers[1]?.id ?? '')
  ids = [UNKNOWN_ID, ...strangers.map(({ id }) => id)]
  await store.backups.snapshot(bench.cell)
  objectStore.open()
}

const restore = (body: object = {}, headers: Record<string, string> = {}) => ({
  method: 'POST',
  path: '/v1/databases/{id}/restore',
  body,
  headers,
})
const branch = (more: object = {}) => ({
  method: 'POST',
  path: '/v1/databases',
  body: { from: { cell_id: '{id}', ...more } },
})
const list = (query = '') => ({ method: 'GET', path: `/v1/databases/{id}/backups${query}` })
const ASKS = [
  restore(),
  restore({ dry_run: true }),
  restore({ version: 'x' }),
  restore({ timestamp: '2126-11-21T02:02:13Z' }),
  restore({ version: 5 }),
  restore({}, { prefer: 'respond-async' }),
  { method: 'GET', path: `/v1/databases/{id}/restores/${UNKNOWN_ID}` },
  list(),
  list('?limit=0'),
  list('?cursor=x'),
  branch(),
  branch({ version: 'x' }),
  branch({ timestamp: '2126-11-21T02:02:13Z' }),
]

/** The answers to each request, and what each had the object store do: of every id the same. */
async function expectAlike(): Promise<Set<number>> {
  const statuses = new Set<number>()
  for (const ask of ASKS) {
    const answers: object[] = []
    for (const id of ids) {
      const calls: string[] = []
      bench.objectStore.gates = (call, key) => {
        if (key.includes(id)) calls.push(call)
        return false
      }
      const { status, json, headers } = await bench.send(JSON.parse(JSON.stringify(ask).replace('{id}', id)))
      answers.push({
        status,
        json: { ...(json as object), request_id: undefined },
        retryAfter: headers.get('retry-after'),
        calls,
      })
      statuses.add(status)
    }
    for (const answer of answers) expect({ ask, ...answer }).toEqual({ ask, ...answers[0] })
  }
  return statuses
}

test('while everything is well', async () => {
  await open()
  expect(await expectAlike()).toEqual(new Set([404]))
})

test('if the account has its quota of cells, or of bytes', async () => {
  await open()
  for (const quota of [{ cellsMax: 1 }, { bytesMax: 1 }]) {
    bench.store.accounts.setQuotas(bench.accountId, quota)
    expect(await expectAlike()).toEqual(new Set([404]))
  }
})

test('if the account has moved as many bytes as it may', async () => {
  // Seconds until it may again are in the answer.
  await open({ store: { quotas: { backupMibPerSecond: 1 }, clock: new FakeClock() } })
  // Each counts as a MiB, and a minute's worth may come at once.
  const plan = { method: 'POST', path: '/v1/databases/{cell}/restore', body: { dry_run: true } }
  while ((await bench.send(plan)).status === 200);
  expect(await expectAlike()).toEqual(new Set([429, 404]))
})

test('while the account has its share of lists and plans under way', async () => {
  await open({ store: { quotas: { backupReadsAtOnce: 1 } } })
  bench.objectStore.gates = (call) => call === 'list'
  const listed = bench.send({ method: 'GET', path: '/v1/databases/{cell}/backups' })
  await bench.objectStore.arrival()
  expect(await expectAlike()).toEqual(new Set([429, 404]))
  bench.objectStore.open()
  expect((await listed).status).toBe(200)
})

test('while the object store fails', async () => {
  await open()
  bench.objectStore.failure = 'object_store_unavailable'
  expect(await expectAlike()).toEqual(new Set([503, 404]))
})
