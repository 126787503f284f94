import { describe, expect, test } from 'vitest'
import type { BackupResult } from '../../src/backup/versions/backup-types.ts'
import { BackupCharges } from '../../src/http/backup-charges.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
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
