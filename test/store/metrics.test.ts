import fs from 'node:fs'
import { expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { Log } from '../../src/base/log.ts'
import { CellError } from '../../src/errors.ts'
import { type Call, PassingStore } from '../support/backup/object-store-decorators.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'

/** An object store that can go away. */
class LostStore extends PassingStore {
  isLost = false

  protected override async before(call: Call): Promise<void> {
    if (this.isLost) throw new CellError('object_store_unavailable', `No answer to ${call}.`)
  }
}

interface Line {
  level: string
  message: string
  [field: string]: unknown
}

async function openObserved() {
  const lines: Line[] = []
  const take = (level: keyof Log) => (fields: object, message: string) =>
    void lines.push({ ...fields, level, message })
  const clock = new FakeClock()
  const objectStore = new LostStore(new FileObjectStore({ root: tempDirectory() }))
  const log = { info: take('info'), warn: take('warn'), error: take('error') }
  const backups = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null }
  const opened = await openTestStore({ clock, objectStore, log, backups })
  return { ...opened, store: opened.store, directory: opened.directory, clock, objectStore, lines }
}

test('store.metrics() counts what the store does, without an object store too', async () => {
  const { store } = await openTestStore()
  const cell = store.createCell()
  cell.sql('CREATE TABLE t (a)')
  cell.transaction(() => {
    cell.sql('INSERT INTO t VALUES (1)')
    cell.sql('INSERT INTO t VALUES (2)')
  })
  expect(() => cell.sql('SELECT * FROM nowhere')).toThrow()
  cell.kv.put('a', 'b')
  const { startedAt, ...metrics } = store.metrics()
  expect(startedAt).toBe(store.clock.now())
  expect(metrics).toEqual({
    statements: 4,
    commits: 3,
    cells: 1,
    cellsOpen: 1,
    backups: undefined,
    workers: undefined,
  })
})

test('backups are behind by the age of the oldest change that none of them holds', async () => {
  const { store, clock } = await openObserved()
  const [one, two] = [store.createCell(), store.createCell()]
  const lag = () => {
    const { changed, oldestChangeAt } = store.metrics().backups ?? { changed: -1, oldestChangeAt: -1 }
    return { changed, oldestChangeAt }
  }
  // Nothing makes their first versions here but the test.
  expect(lag()).toEqual({ changed: 2, oldestChangeAt: clock.now() })
  for (const { id } of [one, two]) await store.backups.snapshot(id)
  expect(lag()).toEqual({ changed: 0, oldestChangeAt: null })
  one.sql('CREATE TABLE t (a)')
  const first = clock.now()
  clock.step(10_000)
  two.sql('CREATE TABLE t (a)')
  const second = clock.now()
  clock.step(10_000)
  one.sql('INSERT INTO t VALUES (1)')
  expect(lag()).toEqual({ changed: 2, oldestChangeAt: first })
  await store.backups.snapshot(one.id)
  expect(lag()).toEqual({ changed: 1, oldestChangeAt: second })
  expect(store.metrics().backups?.newestStoredAt).toBe(clock.now())
  await store.backups.snapshot(two.id)
  expect(lag()).toEqual({ changed: 0, oldestChangeAt: null })
  clock.step(60_000)
  two.sql('INSERT INTO t VALUES (1)')
  // Not since the backup: since the change.
  expect(lag()).toEqual({ changed: 1, oldestChangeAt: clock.now() })
})

test('the log and the metrics say when the object store is lost and when it is back, once each', async () => {
  const { store, objectStore, clock, lines } = await openObserved()
  const cell = store.createCell()
  cell.sql('CREATE TABLE t (a)')
  await store.backups.snapshot(cell.id)
  const about = (start: string) => lines.filter(({ message }) => message.startsWith(start))
  expect(store.metrics().backups?.objectStore).toMatchObject({ lostAt: null })

  objectStore.isLost = true
  const lostAt = clock.now()
  for (let i = 0; i < 3; i++) await expect(store.backups.snapshot(cell.id)).rejects.toThrow()
  expect(about('the object store does not answer')).toMatchObject([
    { level: 'warn', call: expect.any(String) },
  ])
  const { objectStore: metrics } = store.metrics().backups ?? {}
  expect(metrics?.lostAt).toBe(lostAt)
  const failures = metrics?.calls.flatMap((each) => each.failures) ?? []
  expect(failures.every(({ code }) => code === 'object_store_unavailable')).toBe(true)
  expect(failures.length).toBeGreaterThan(0)
  expect(store.metrics().backups?.failed).toBe(3)

  clock.step(5_000)
  objectStore.isLost = false
  await store.backups.snapshot(cell.id)
  expect(about('the object store answers again')).toMatchObject([{ level: 'info', lostMs: 5_000 }])
  expect(store.metrics().backups?.objectStore.lostAt).toBeNull()
})

test('the census finds the largest cells and those in quarantine by their files', async () => {
  const { store, directory } = await openTestStore()
  const cells = Array.from({ length: 70 }, () => store.createCell())
  const [large, bad] = [cells[30], cells[65]]
  large?.sql('CREATE TABLE t AS SELECT zeroblob(500000) AS a')
  const state = { reason: 'damaged', since: 7 }
  const file = new StorePaths(directory).cell(bad?.id ?? '').quarantine
  fs.writeFileSync(file, JSON.stringify(state))
  const census = await store.core.census.take()
  expect(census).toMatchObject({
    cells: 70,
    quarantinedCount: 1,
    quarantined: [{ cellId: bad?.id, ...state }],
  })
  expect(census.largest).toHaveLength(10)
  expect(census.largest[0]).toEqual({ cellId: large?.id, sizeBytes: large?.sizeBytes })
  expect(census.bytes).toBeGreaterThan(500_000)
  fs.rmSync(file)
  // Not older than that.
  expect(await store.core.census.take(60_000)).toBe(census)
  expect((await store.core.census.take()).quarantinedCount).toBe(0)
})

test('each warning and error of the store is among its newest failures, with the account of its cell', async () => {
  const { store, objectStore } = await openObserved()
  const accountId = store.accounts.create().id
  const cell = store.createCell({ accountId })
  cell.sql('CREATE TABLE t (a)')
  objectStore.isLost = true
  await expect(store.backups.snapshot(cell.id, { requestId: 'mine' })).rejects.toThrow()
  expect(store.core.observed.failures.list()).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        message: 'a backup failed',
        code: 'object_store_unavailable',
        cellId: cell.id,
        accountId,
        requestId: 'mine',
      }),
    ]),
  )
  objectStore.isLost = false
})
