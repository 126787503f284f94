import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { bufferBody, type ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { readManifest } from '../../support/backup/archives.ts'
import {
  FailingStore,
  GatedStore,
  ofFence,
  RecordingStore,
  readObject,
} from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'

const place = ScratchPlace.perTest()

/** Opens what is left after the loss of everything local. */
async function afterTotalLoss(
  store: CellStore,
  objectStore: ObjectStore = place.folder(),
): Promise<CellStore> {
  await store.close()
  place.loseData()
  return place.open({ objectStore })
}

/** The same without a proper end: what was not in the object store at that moment never gets there. */
async function afterSuddenLoss(store: CellStore, failing: FailingStore): Promise<CellStore> {
  failing.failFromHere(1)
  failing.forGood = true
  await store.close()
  failing.failAt = 0
  failing.forGood = false
  place.loseData()
  return place.open({ objectStore: failing })
}

function catalogVersions(storeId: string): string[] {
  return filesBelow(place.objects).filter((file) => file.includes(storeId))
}

describe('From the object store alone (invariant 14)', () => {
  test('accounts, keys and cells come back before the first request; revoked keys stay revoked', async () => {
    const store = await place.create()
    const account = store.accounts.create()
    const kept = store.apiKeys.create(account.id, { name: 'kept' })
    const revoked = store.apiKeys.create(account.id, { name: 'revoked' })
    const cell = createLedger(store, { name: 'acme', accountId: account.id })
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    store.apiKeys.revoke(account.id, revoked.id)
    const deleted = createLedger(store, { accountId: account.id })
    await store.backups.snapshot(deleted.id)
    store.deleteCell(deleted.id)
    const again = await afterTotalLoss(store)
    expect(again.id).toBe(store.id)
    expect(again.apiKeys.verify(kept.key)).toMatchObject({ accountId: account.id })
    expect(codeOf(() => again.apiKeys.verify(revoked.key))).toBe('unauthorized')
    expect(again.cells().cells).toMatchObject([{ id: cell.id, name: 'acme', accountId: account.id }])
    expect(codeOf(() => again.openCell(deleted.id))).toBe('cell_not_found')
    await again.backups.restore(deleted.id, { accountId: account.id })
    expect(notes(again.openCell(deleted.id))).toEqual([])
  })

  test('a cell comes back with its first use; it says so until then, and never shows an empty database', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    addRow(cell, 'two')
    await store.backups.incremental(cell.id)
    const again = await afterTotalLoss(store)
    const same = again.openCell(cell.id)
    expect(codeOf(() => notes(same))).toBe('cell_restoring')
    expect(codeOf(() => same.kv.put('k', 'v'))).toBe('cell_restoring')
    await again.openCell(cell.id).ensureLocal()
    expect(notes(same)).toEqual(['one', 'two'])
    addRow(same, 'three')
    const { baseVersion } = await again.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
  })

  test('first uses at the same time share one restore', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    const recording = new RecordingStore(place.folder())
    const again = await afterTotalLoss(store, recording)
    recording.forget()
    const same = again.openCell(cell.id)
    const uses = [
      again.openCell(cell.id).ensureLocal(),
      again.openCell(cell.id).ensureLocal(),
      again.backups.ensureLocal(cell.id),
    ]
    expect(codeOf(() => notes(same))).toBe('cell_restoring')
    uses.push(again.backups.snapshot(cell.id).then(() => {}))
    await Promise.all(uses)
    // The manifest, and the object itself.
    expect(recording.calls.filter(({ call, key }) => call === 'get' && key === version)).toHaveLength(2)
  })

  test('a cell that was never backed up answers no_backup, and is not created again', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.core.catalogStored()
    const again = await afterTotalLoss(store)
    expect((await rejectedBy(again.openCell(cell.id).ensureLocal())).code).toBe('no_backup')
    expect((await rejectedBy(again.backups.snapshot(cell.id))).code).toBe('no_backup')
    expect(codeOf(() => notes(again.openCell(cell.id)))).toBe('cell_restoring')
    await turnsUntil(() => !fs.existsSync(place.paths.cell(cell.id).database), 'there is no file')
  })

  test('what a backup has answered for is there, however sudden the loss', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const account = store.accounts.create()
    const key = store.apiKeys.create(account.id, {})
    const cell = createLedger(store, { accountId: account.id })
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    const again = await afterSuddenLoss(store, failing)
    expect(again.apiKeys.verify(key.key)).toMatchObject({ accountId: account.id })
    await again.openCell(cell.id).ensureLocal()
    expect(notes(again.openCell(cell.id))).toEqual(['one'])
  })

  test.each(['right after the restore', 'after a crash right before its switch'])(
    'a cell that was restored to an older version is that version, if all is lost %s',
    async (when) => {
      const failing = new FailingStore(place.folder())
      const store = await place.create({ objectStore: failing })
      const cell = createLedger(store)
      addRow(cell, 'one')
      const { version } = await store.backups.snapshot(cell.id)
      addRow(cell, 'two')
      await store.backups.incremental(cell.id)
      if (when === 'right after the restore') {
        await store.backups.restore(cell.id, { version })
        expect(notes(cell)).toEqual(['one'])
        const again = await afterSuddenLoss(store, failing)
        await again.openCell(cell.id).ensureLocal()
        expect(notes(again.openCell(cell.id))).toEqual(['one'])
        return
      }
      // The disk refuses the switch: the cell stays as it was, and its next backup is newer than the restored version.
      fs.mkdirSync(place.paths.cell(cell.id).restoreIntent)
      await rejectedBy(store.backups.restore(cell.id, { version }))
      fs.rmdirSync(place.paths.cell(cell.id).restoreIntent)
      expect(notes(cell)).toEqual(['one', 'two'])
      expect(store.core.destination?.progress.find(cell.id).dirty).toBe(true)
      await store.backups.incremental(cell.id)
      const again = await afterSuddenLoss(store, failing)
      await again.openCell(cell.id).ensureLocal()
      expect(notes(again.openCell(cell.id))).toEqual(['one', 'two'])
    },
  )

  test('changes of the catalog are there a second later, without a backup of any cell', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    await store.core.catalogStored()
    const account = store.accounts.create()
    const key = store.apiKeys.create(account.id, {})
    const before = catalogVersions(store.id)
    place.clock.advance(1_000)
    await turnsUntil(() => catalogVersions(store.id).length > before.length, 'the catalog is backed up')
    await store.core.catalogStored()
    const again = await afterSuddenLoss(store, failing)
    expect(again.apiKeys.verify(key.key)).toMatchObject({ accountId: account.id })
  })

  test('only what the newest catalog backup missed is lost, and cells backed up are their account’s still', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const account = store.accounts.create()
    await store.core.catalogStored()
    const lateKey = store.apiKeys.create(account.id, {})
    const again = await afterSuddenLoss(store, failing)
    expect(codeOf(() => again.apiKeys.verify(lateKey.key))).toBe('unauthorized')
    expect(again.accounts.find(account.id)).toMatchObject({ id: account.id })
  })

  test('also when only the catalog was lost: cells that are here are used as they are', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'only here')
    await store.close()
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(place.paths.catalog + suffix, { force: true })
    const recording = new RecordingStore(place.folder())
    const again = await place.open({ objectStore: recording })
    expect(notes(again.openCell(cell.id))).toEqual(['only here'])
    // Its changes from here on are stored, though the local state knew of more of them.
    again.accounts.create()
    recording.forget()
    await again.core.catalogStored()
    expect(recording.calls.some(({ call, key }) => call === 'put' && key.includes(again.id))).toBe(true)
  })
})

describe('A catalog that comes back', () => {
  test('is backed up after its next change, also where the local state remembers as many changes of the lost one', async () => {
    const store = await place.create()
    await store.core.catalogStored()
    store.accounts.create()
    await store.core.catalogStored()
    await store.close()
    // The newest is gone from the bucket: the catalog comes back as it was a change ago.
    fs.rmSync(path.join(place.objects, catalogVersions(store.id).at(-1) as string))
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(place.paths.catalog + suffix, { force: true })
    const again = await place.open()
    expect(again.accounts.list()).toHaveLength(0)
    const account = again.accounts.create()
    await again.core.catalogStored()
    const last = await afterTotalLoss(again)
    expect(last.accounts.list()).toMatchObject([{ id: account.id }])
  })

  test('goes on with its own chain: most of its backups are incrementals', async () => {
    const store = await place.create()
    for (let i = 0; i < 40; i++) {
      store.accounts.create()
      await store.core.catalogStored()
    }
    const chains: (number | undefined)[] = []
    for (const version of catalogVersions(store.id)) {
      const bytes = await readObject(place.folder(), version)
      chains.push((await readManifest(bytes, true))?.chain.length)
    }
    expect(chains.length).toBeGreaterThanOrEqual(40)
    expect(chains.filter((length) => length === 0)).toHaveLength(3)
    // A start without a catalog reads a whole chain.
    expect(Math.max(...(chains as number[]))).toBe(15)
  })
})

describe('One prefix belongs to one store (invariant 14):', () => {
  test('another store’s is refused, with a catalog and without', async () => {
    const store = await place.create()
    await store.close()
    const elsewhere = new ScratchPlace()
    const other = await elsewhere.create()
    await other.close()
    const refused = await rejectedBy(elsewhere.open({ objectStore: place.folder(), moveObjectStore: true }))
    expect(refused.code).toBe('object_store_mismatch')
    expect(refused.message).toContain(store.id)
    expect((await rejectedBy(elsewhere.create({ objectStore: place.folder() }))).code).toBe('store_exists')
    await elsewhere.open()
  })

  test('and found out before the first backup, where the object store did not answer at the start', async () => {
    const store = await place.create()
    await store.close()
    const elsewhere = new ScratchPlace()
    const other = await elsewhere.create()
    const cell = createLedger(other)
    await other.close()
    const gated = new GatedStore(place.folder())
    gated.hold()
    const opening = elsewhere.open({ objectStore: gated, moveObjectStore: true })
    const late = await elsewhere.advanceUntil(opening)
    gated.open()
    const stored = filesBelow(place.objects)
    expect((await rejectedBy(late.backups.snapshot(cell.id))).code).toBe('object_store_mismatch')
    expect(filesBelow(place.objects)).toEqual(stored)
  })

  test('a claim without the first catalog is no proof of a first start: it is refused, and says what to do', async () => {
    const failing = new FailingStore(place.folder())
    // The process ends right after its claim.
    failing.failFromHere(1, (call, key) => call === 'put' && key.startsWith('snapshots/'))
    failing.forGood = true
    const first = await place.openOrCreate({ objectStore: failing })
    await first.close()
    // With its directory, it goes on.
    const again = await place.openOrCreate({ objectStore: failing })
    expect(again.id).toBe(first.id)
    await again.close()
    place.loseData()
    expect(filesBelow(place.objects).filter((file) => !ofFence(file))).toEqual(['store.json'])
    expect((await rejectedBy(place.create())).code).toBe('store_exists')
    for (const start of ['open', 'openOrCreate'] as const) {
      expect(await rejectedBy(place[start]())).toMatchObject({
        code: 'object_store_mismatch',
        message: expect.stringContaining('remove store.json'),
      })
    }
    expect(fs.existsSync(place.data)).toBe(false)
    fs.rmSync(path.join(place.objects, 'store.json'))
    await place.openOrCreate()
  })

  test('two stores that claim it at the same time: one of them is refused', async () => {
    const elsewhere = new ScratchPlace()
    const outcomes = await Promise.allSettled([
      place.create(),
      elsewhere.create({ objectStore: place.folder() }),
    ])
    const failed = outcomes.filter(({ status }) => status === 'rejected')
    const ids = outcomes.flatMap((each) => (each.status === 'fulfilled' ? [each.value.id] : []))
    // Whoever reads the other's claim before it makes its own finds a store there.
    expect(new Set(ids).size).toBe(1)
    expect(failed).toHaveLength(1)
  })

  test('a folder with other people’s files in it is no store, and is left as it is', async () => {
    await place.folder().put('photos/holiday', bufferBody(Buffer.from('jpeg')))
    const store = await place.create()
    await store.core.catalogStored()
    expect(fs.readFileSync(path.join(place.objects, 'photos/holiday'), 'utf8')).toBe('jpeg')
  })
})

describe('The catalog’s own backup', () => {
  test('holds changes that come together in one version, and is not made for what is no change', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    await store.core.catalogStored()
    recording.forget()
    const account = store.accounts.create()
    const { key } = store.apiKeys.create(account.id, {})
    for (let i = 0; i < 20; i++) store.createCell()
    place.clock.advance(1_000)
    await turnsUntil(() => recording.count('put') > 0, 'the catalog is backed up')
    await store.core.catalogStored()
    expect(recording.count('put')).toBe(1)
    recording.forget()
    for (let i = 0; i < 100; i++) {
      store.apiKeys.verify(key)
      place.clock.advance(60_000)
      await setImmediate()
    }
    await store.core.catalogStored()
    expect(recording.calls).toEqual([])
  })

  test('waits for nobody twice: what a cell’s backup has stored is not stored again when the timer fires', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.core.catalogStored()
    recording.forget()
    place.clock.advance(10_000)
    for (let turn = 0; turn < 100; turn++) await setImmediate()
    expect(recording.calls).toEqual([])
  })

  test('is tried again until it works, without another request', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    await store.core.catalogStored()
    failing.failFromHere(1, (call) => call === 'put')
    failing.forGood = true
    const cell = createLedger(store)
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('object_store_unavailable')
    const before = catalogVersions(store.id)
    failing.failAt = 0
    const isStored = () => {
      place.clock.advance(1)
      return catalogVersions(store.id).length > before.length
    }
    await turnsUntil(isStored, 'the catalog is backed up by itself')
  })

  test('of every change stays for a day at least, and the newest comes back', async () => {
    const store = await place.create()
    for (let i = 0; i < 40; i++) {
      store.accounts.create()
      await store.core.catalogStored()
    }
    const kept = catalogVersions(store.id)
    expect(kept.length).toBeGreaterThanOrEqual(40)
    const again = await afterTotalLoss(store)
    expect(again.id).toBe(store.id)
    expect(again.accounts.list()).toHaveLength(40)
  })

  test('is made at the start for what was not stored at the end', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    await store.core.catalogStored()
    failing.failFromHere(1)
    failing.forGood = true
    const account = store.accounts.create()
    await store.close()
    const again = await place.open()
    place.clock.advance(1_000)
    await again.core.catalogStored()
    const last = await afterTotalLoss(again)
    expect(last.accounts.find(account.id)).toMatchObject({ id: account.id })
  })

  test('is no cell to anybody: its id and its versions answer as if they were not there', async () => {
    const store = await place.create()
    await store.core.catalogStored()
    expect(codeOf(() => store.openCell(store.id))).toBe('cell_not_found')
    expect(codeOf(() => store.openCell(store.id))).toBe('cell_not_found')
    const [version] = catalogVersions(store.id)
    expect((await rejectedBy(store.backups.restore(store.id, { version: version as string }))).code).toBe(
      'cell_not_found',
    )
    const cell = createLedger(store)
    expect((await rejectedBy(store.backups.restore(cell.id, { version: version as string }))).code).toBe(
      'backup_not_found',
    )
  })
})
