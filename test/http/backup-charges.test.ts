import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { BackupResult } from '../../src/backup/versions/backup-types.ts'
import { BackupCharges } from '../../src/http/quotas/backup-charges.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { type Ask, Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { rejectedBy } from '../support/thrown.ts'

const MIB = 1_048_576

test('An account has so many requested backups under way at a time, and is told to wait', async () => {
  const bench = await Bench.open(viaFetch, { store: { quotas: { backupsAtOnce: 1 } } })
  const ask = { method: 'POST', path: '/v1/databases/{cell}/backup' }
  bench.objectStore.hold()
  const both = [bench.send(ask), bench.send(ask)]
  const refused = await Promise.race(both)
  expect(refused).toMatchObject({ status: 429, json: { code: 'rate_limited', limit: 1, usage: 1 } })
  expect((refused.json as { detail: string }).detail).toMatch(
    /has 1 backups under way; quotas\.backupsAtOnce is 1/,
  )
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  bench.objectStore.open()
  expect((await Promise.all(both)).map(({ status }) => status).sort()).toEqual([200, 429])
  expect((await bench.send(ask)).status).toBe(200)
  await bench.close()
})

describe('The bytes of requested backups', () => {
  const snapshot = { baseVersion: null, sizeBytes: 1_000 } as BackupResult
  const incremental = { baseVersion: 'base', sizeBytes: 3 * MIB } as BackupResult

  test('are charged to the account: the whole cell for a base, what was stored for an incremental', async () => {
    const clock = new FakeClock()
    const charges = new BackupCharges({ backupMibPerSecond: 1 }, clock)
    const back = (account: string, cellMib: number, result: BackupResult) =>
      charges.run(
        account,
        async () => cellMib * MIB,
        async () => result,
      )
    await back('a', 40, snapshot)
    await back('a', 40, incremental)
    await back('a', 40, snapshot)
    const error = await rejectedBy(back('a', 40, incremental))
    expect(error).toMatchObject({
      code: 'rate_limited',
      details: { limit: 1, usage: 83, retryAfterMs: 24_000 },
    })
    expect(error.message).toContain('quotas.backupMibPerSecond')
    await back('b', 40, snapshot)
    clock.advance(24_000)
    await back('a', 40, incremental)
  })

  test('count as one MiB at least: an unchanged small cell is not free', async () => {
    const charges = new BackupCharges({ backupMibPerSecond: 1 }, new FakeClock())
    const small = () =>
      charges.run(
        'a',
        async () => 4_096,
        async () => snapshot,
      )
    for (let i = 0; i < 60; i++) await small()
    expect((await rejectedBy(small())).code).toBe('rate_limited')
  })
})

test('A backup that fails is no longer under way', async () => {
  const charges = new BackupCharges({ backupsAtOnce: 1 }, new FakeClock())
  for (let i = 0; i < 3; i++) {
    const failing = charges.run(
      'a',
      async () => 0,
      () => Promise.reject(new TypeError('lost')),
    )
    await expect(failing).rejects.toThrow('lost')
  }
})

describe('What moves bytes is charged for them, also if it fails:', () => {
  const limited = { status: 429, json: { code: 'rate_limited', limit: 1 } }

  /** An account that may move a MiB a second, with a cell of two of them and a backup. */
  async function openCharged(): Promise<Bench> {
    // Without shipping no restore waits for its account's turn to ship.
    const store = { quotas: { backupMibPerSecond: 1 }, backups: { maxLagMs: null } }
    const bench = await Bench.open(viaFetch, { store })
    onTestFinished(() => bench.close())
    // Time stands still: nothing comes back.
    bench.clock.monotonic = () => 0
    bench.store.openCell(bench.cell).exec('CREATE TABLE t AS SELECT randomblob(2000000) AS a')
    await bench.store.backups.snapshot(bench.cell)
    return bench
  }

  /** How often it can be asked until the account has moved what it may at once, which is 60 MiB. */
  async function askUntilLimited(bench: Bench, ask: Ask): Promise<number> {
    for (let i = 0; i <= 60; i++) {
      const reply = await bench.send(ask)
      if (reply.status !== 429) continue
      expect(reply).toMatchObject(limited)
      return i
    }
    return Number.POSITIVE_INFINITY
  }

  test('a restore', async () => {
    const bench = await openCharged()
    const restore = { method: 'POST', path: '/v1/databases/{cell}/restore', body: {} }
    expect(await askUntilLimited(bench, restore)).toBe(30)
    expect((await bench.send({ ...restore, key: bench.strangerKey })).status).toBe(404)
  })

  test('a backup that the object store refuses', async () => {
    const charges = new BackupCharges({ backupMibPerSecond: 1 }, new FakeClock())
    const failing = () =>
      charges.run(
        'a',
        async () => 30 * MIB,
        async (onProgress) => {
          onProgress({ phase: 'upload', bytes: 20 * MIB, total: 30 * MIB })
          throw new TypeError('lost')
        },
      )
    for (let i = 0; i < 3; i++) await expect(failing()).rejects.toThrow('lost')
    await expect(failing()).rejects.toMatchObject({ code: 'rate_limited' })
  })

  test('the search for a cell that the catalog does not have', async () => {
    const bench = await openCharged()
    const path = () => `/v1/databases/${randomUUID()}/backups`
    for (let i = 0; i < 60; i++) expect((await bench.send({ method: 'GET', path: path() })).status).toBe(404)
    expect(await bench.send({ method: 'GET', path: path() })).toMatchObject(limited)
    expect((await bench.send({ method: 'GET', path: '/v1/databases/{cell}/backups' })).status).toBe(200)
  })

  test('an export that ends before it is whole', async () => {
    const bench = await openCharged()
    const { key, id } = bench.store.apiKeys.create(bench.accountId)
    // The key is revoked while the cell is copied.
    const service = new InProcessService(bench.store, { restoreWaitMs: 1_000, bounds: BOUNDS })
    const revoked: Pick<CellService, 'execute' | 'exportCell'> = {
      execute: (...call) => service.execute(...call),
      exportCell: (cellId, options) =>
        service.exportCell(cellId, {
          ...options,
          onProgress: () => void bench.store.apiKeys.revoke(bench.accountId, id),
        }),
    }
    await bench.serve(bench.store, viaFetch, { service: revoked as CellService })
    const ask = { method: 'GET', path: '/v1/databases/{cell}/export' }
    expect((await bench.send({ ...ask, key })).status).toBe(401)
    expect(
      await askUntilLimited(bench, { method: 'GET', path: `/v1/databases/${randomUUID()}/backups` }),
    ).toBe(58)
  })
})
