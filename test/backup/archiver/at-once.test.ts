import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { RestoreThreads } from '../../../src/backup/restore/threads/restore-threads.ts'
import type { BackupProgressEvent } from '../../../src/backup/versions/backup-types.ts'
import { parseVersion } from '../../../src/backup/versions/object-keys.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { GatedStore, PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { perTest } from '../../support/per-test.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { turnsUntil } from '../../support/turns.ts'

const MIB = 1_048_576

const place = ScratchPlace.perTest()
const gated = perTest(() => new GatedStore(place.folder()))

/** Cells with a row of their own each. */
function ledgers(store: CellStore, count: number, extraBytes = 0): Cell[] {
  return Array.from({ length: count }, (_, i) => {
    const cell = createLedger(store)
    addRow(cell, `cell ${i}`)
    if (extraBytes > 0) {
      cell.sql('CREATE TABLE blobs (b)')
      cell.sql('INSERT INTO blobs VALUES (randomblob(?))', [extraBytes])
    }
    return cell
  })
}

test('80 backups requested at once of small cells all succeed: sixteen upload at a time, and no more are spooled', async () => {
  const store = await place.create({ objectStore: gated })
  const cells = ledgers(store, 80)
  await store.core.catalogStored()
  gated.gates = (call, key) => call === 'put' && !key.includes(store.id)
  const isUpload = gated.gates
  let most = { uploads: 0, files: 0 }
  let passed = 0
  const backups = Promise.all(cells.map(({ id }) => store.backups.snapshot(id)))
  let done = false
  void backups.then(() => (done = true))
  await turnsUntil(() => gated.waiting === 16, 'sixteen are uploaded')
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve))
    const files = fs.existsSync(place.paths.spool) ? filesBelow(place.paths.spool).length : 0
    most = { uploads: Math.max(most.uploads, gated.waiting), files: Math.max(most.files, files) }
    if (gated.waiting < 16) continue
    passed += gated.waiting
    gated.open()
    if (passed < 64) gated.gates = isUpload
  }
  expect((await backups).length).toBe(80)
  expect(most.uploads).toBe(16)
  expect(most.files).toBeLessThanOrEqual(32)
})

test('large cells whose chain is gone from the object store are copied one after the other, as other large ones are', async () => {
  const copying = new Set<string>()
  let most = 0
  class NotingStore extends PassingStore {
    override async put(...[key, ...rest]: Parameters<PassingStore['put']>): Promise<void> {
      await super.put(key, ...rest)
      copying.delete(parseVersion(key)?.cellId ?? '')
    }
  }
  const objectStore = new NotingStore(place.folder())
  const store = await place.create({ objectStore, backups: { concurrency: 1 } })
  const cells = ledgers(store, 3, 5 * MIB)
  for (const cell of cells) {
    const { version } = await store.backups.snapshot(cell.id)
    await objectStore.delete(version)
    addRow(cell, 'newer')
  }
  const backups = cells.map(({ id }) => {
    const onProgress = ({ phase }: BackupProgressEvent) => {
      if (phase === 'read') copying.add(id)
      most = Math.max(most, copying.size)
    }
    return store.backups.incremental(id, { onProgress })
  })
  expect((await Promise.all(backups)).map(({ baseVersion }) => baseVersion)).toEqual([null, null, null])
  expect(most).toBe(1)
})

test('after a total loss, 40 large cells are restored at once with four threads, whatever their number', async () => {
  const store = await place.create()
  const cells = ledgers(store, 40, 5 * MIB)
  for (const { id } of cells) await store.backups.snapshot(id)
  await store.close()
  place.loseData()
  const again = await place.open({ objectStore: gated })
  let threads = 0
  let most = 0
  const { take, release } = RestoreThreads.prototype
  vi.spyOn(RestoreThreads.prototype, 'take').mockImplementation(function (this: RestoreThreads) {
    most = Math.max(most, ++threads)
    return take.call(this)
  })
  vi.spyOn(RestoreThreads.prototype, 'release').mockImplementation(function (this: RestoreThreads, thread) {
    threads--
    return release.call(this, thread)
  })
  await Promise.all(cells.map(({ id }) => again.openCell(id).ensureLocal()))
  expect(cells.map(({ id }) => notes(again.openCell(id)))).toEqual(cells.map((_, i) => [`cell ${i}`]))
  expect(most).toBe(4)
})

test('a restore that waits for its turn ends with its caller’s signal, and leaves the cell as it was (invariant 13)', async () => {
  const store = await place.create({ objectStore: gated, backups: { restoreConcurrency: 1 } })
  const [first, second] = ledgers(store, 2) as [Cell, Cell]
  for (const { id } of [first, second]) await store.backups.snapshot(id)
  addRow(second, 'newer')
  gated.gates = (call) => call === 'get'
  const running = store.backups.restore(first.id)
  await gated.arrival()
  const abort = new AbortController()
  const waiting = store.backups.restore(second.id, { signal: abort.signal })
  abort.abort()
  await expect(waiting).rejects.toBe(abort.signal.reason)
  expect(notes(second)).toEqual(['cell 1', 'newer'])
  gated.open()
  await running
})

test('a restore that is past its deadline fails, leaves nothing behind, and the cell as it was (invariant 13)', async () => {
  const store = await place.create({ objectStore: gated, backups: { deadlineMs: 60_000 } })
  const [cell] = ledgers(store, 1) as [Cell]
  const { version } = await store.backups.snapshot(cell.id)
  addRow(cell, 'newer')
  gated.gates = (call, key) => call === 'get' && key === version
  const restore = store.backups.restore(cell.id)
  restore.catch(() => {})
  await gated.arrival()
  place.clock.advance(59_999)
  expect(gated.waiting).toBe(1)
  place.clock.advance(1)
  await expect(restore).rejects.toMatchObject({ code: 'busy', details: { limit: 60_000 } })
  expect(notes(cell)).toEqual(['cell 0', 'newer'])
  expect(filesBelow(place.data).filter((file) => file.includes('incoming'))).toEqual([])
  gated.open()
  await store.backups.restore(cell.id)
  expect(notes(cell)).toEqual(['cell 0'])
})

test('so does one that waits for a backup of its cell', async () => {
  const store = await place.create({ objectStore: gated })
  const [cell] = ledgers(store, 1) as [Cell]
  await store.backups.snapshot(cell.id)
  gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
  const backup = store.backups.snapshot(cell.id)
  await gated.arrival()
  const abort = new AbortController()
  const waiting = store.backups.restore(cell.id, { signal: abort.signal })
  abort.abort()
  await expect(waiting).rejects.toBe(abort.signal.reason)
  gated.open()
  await backup
})

test('a cell that a request waits for comes before restores that were requested earlier', async () => {
  const store = await place.create()
  const cells = ledgers(store, 4)
  for (const { id } of cells) await store.backups.snapshot(id)
  await store.close()
  place.loseData()
  const again = await place.open({ objectStore: gated, backups: { restoreConcurrency: 1 } })
  const [running, requested, background, waiting] = cells.map(({ id }) => id) as [
    string,
    string,
    string,
    string,
  ]
  gated.gates = (call) => call === 'get'
  const order: string[] = []
  const note = (id: string) => () => void order.push(id)
  const all = [again.backups.restore(running).then(note(running))]
  await gated.arrival()
  all.push(again.backups.recoverIfLost(background, 'background').then(note(background)))
  all.push(again.backups.restore(requested).then(note(requested)))
  all.push(again.openCell(waiting).ensureLocal().then(note(waiting)))
  gated.open()
  await Promise.all(all)
  expect(order).toEqual([running, waiting, requested, background])
})

test('a store that closes lets restores end until the deadline, cancels the others, and leaves nothing of them', async () => {
  const store = await place.create({ objectStore: gated, backups: { restoreConcurrency: 1 } })
  const cells = ledgers(store, 2)
  for (const { id } of cells) await store.backups.snapshot(id)
  gated.gates = (call) => call === 'get'
  const restores = cells.map(({ id }) => store.backups.restore(id))
  for (const restore of restores) restore.catch(() => {})
  await gated.arrival()
  await place.advanceUntil(store.close({ deadlineMs: 0 }))
  for (const restore of restores) await expect(restore).rejects.toMatchObject({ code: 'store_closed' })
  expect(filesBelow(place.data).filter((file) => file.includes('incoming'))).toEqual([])
})
