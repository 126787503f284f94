import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { KeyScopeOptions } from '../../src/auth/key-scope.ts'
import { leftOvers } from '../support/database-files.ts'
import { type Ask, Bench, type BenchOptions } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { checkProblem } from './rows/row.ts'

/** New cells with a state of another cell, over HTTP: whose they are, what they cost, and what may change meanwhile. */

let bench: Bench
const open = async (options: BenchOptions = {}) => {
  await bench?.close()
  bench = await Bench.open(viaFetch, {
    ...options,
    store: {
      backups: { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null },
      ...options.store,
    },
  })
  bench.store.openCell(bench.cell).sql('CREATE TABLE t AS SELECT zeroblob(100000) AS a')
  await bench.store.backups.snapshot(bench.cell)
}

beforeEach(() => open())
afterEach(() => bench.close())

const branch = (more: Partial<Ask> = {}): Ask => ({
  method: 'POST',
  path: '/v1/databases',
  body: { from: { cell_id: '{cell}' } },
  ...more,
})
const cells = () => bench.store.cells().cells.length
const left = () => leftOvers({ directory: path.join(bench.directory, 'data') }, cells())

/** Holds the read of the backup until `meanwhile` is done. */
async function during(ask: Ask, meanwhile: () => unknown) {
  bench.objectStore.gates = (call) => call === 'get' || call === 'head'
  const asked = bench.send(ask)
  await bench.objectStore.arrival()
  await meanwhile()
  bench.objectStore.open()
  return await asked
}

test('a cell of another account is not found, whether it exists or is deleted, and in the same words', async () => {
  const answers = async () => {
    const reply = await bench.send(branch({ key: bench.strangerKey }))
    checkProblem(reply, 404, { code: 'cell_not_found' })
    return (reply.json as { detail: string }).detail
  }
  const words = [await answers()]
  bench.store.deleteCell(bench.cell)
  words.push(await answers())
  const version = `snapshots/${bench.cell}/backup-20200101T000000.000Z`
  const named = branch({ key: bench.strangerKey, body: { from: { cell_id: '{cell}', version } } })
  const reply = await bench.send(named)
  words.push((reply.json as { detail: string }).detail)
  expect(new Set(words)).toEqual(new Set(['There is no such cell.']))
  expect(left()).toEqual([])
})

test('a key that may not make cells makes none', async () => {
  const { apiKeys } = bench.store
  const keys = [{ access: 'read' }, { surface: 'kv' }, { cellIds: [bench.cell] }] as const
  for (const scope of keys) {
    const { key } = apiKeys.create(bench.accountId, scope as KeyScopeOptions)
    checkProblem(await bench.send(branch({ key })), 403, { code: 'forbidden' })
  }
  expect(cells()).toBe(1)
})

test('a key that is revoked meanwhile makes no cell', async () => {
  const { id, key } = bench.store.apiKeys.create(bench.accountId)
  const reply = await during(branch({ key }), () => bench.store.apiKeys.revoke(bench.accountId, id))
  checkProblem(reply, 401, { code: 'unauthorized' })
  expect([cells(), left()]).toEqual([1, []])
})

test('an account that is suspended meanwhile gets no cell', async () => {
  const reply = await during(branch(), () => bench.store.accounts.suspend(bench.accountId))
  checkProblem(reply, 403, { code: 'account_suspended' })
  expect([cells(), left()]).toEqual([1, []])
})

test('a cell whose bytes are over the quota is not made', async () => {
  await open({ store: { quotas: { bytesMax: 150_000 } } })
  const reply = await bench.send(branch())
  expect([reply.status, reply.json]).toMatchObject([403, { code: 'quota_exceeded' }])
  expect([cells(), left()]).toEqual([1, []])
})

test('it takes a share of the backups that are under way, and gives it back', async () => {
  await open({ store: { quotas: { backupsAtOnce: 1 } } })
  const reply = await during(branch(), async () => {
    const second = await bench.send(branch())
    expect([second.status, second.json]).toMatchObject([429, { code: 'rate_limited' }])
  })
  expect(reply.status).toBe(201)
  expect((await bench.send(branch())).status).toBe(201)
})

test('while one with an Idempotency-Key is at work, its repetition is told so', async () => {
  const once = branch({ headers: { 'idempotency-key': 'once' } })
  const reply = await during(once, async () => {
    const second = await bench.send(once)
    expect([second.status, second.json]).toMatchObject([409, { code: 'idempotency_in_progress' }])
  })
  const { id } = reply.json as { id: string }
  bench.store.renameCell(id, 'renamed')
  const again = await bench.send(once)
  expect([again.text, again.headers.get('idempotent-replayed')]).toEqual([reply.text, 'true'])
  expect(cells()).toBe(2)
})
