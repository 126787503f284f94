import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { CellError } from '../../src/errors.ts'
import { FailingStore, RecordingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { KeptLog } from '../support/kept-log.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

const HOUR_MS = 3_600_000

const place = ScratchPlace.perTest()
const other = ScratchPlace.perTest()

describe('A store whose object store another one has taken over', () => {
  test('refuses every call that writes or needs the object store, and writes nothing more there', async () => {
    const log = new KeptLog()
    const store = await place.create({ log })
    const cell = createLedger(store)
    addRow(cell, 'stored')
    await store.backups.snapshot(cell.id)
    await store.core.catalogStored()
    const second = await other.open({ objectStore: place.folder(), takeOver: true })
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('taken_over')
    const before = filesBelow(place.objects)

    const refused = [
      () => addRow(cell, 'late'),
      () => notes(cell),
      () => cell.kv.put('k', 'late'),
      () => store.createCell(),
      () => store.deleteCell(cell.id),
      () => store.accounts.create(),
    ]
    for (const call of refused) expect(codeOf(call)).toBe('taken_over')
    const rejected = [
      () => cell.commit(() => undefined),
      () => store.backups.incremental(cell.id),
      () => store.backups.restore(cell.id),
      () => store.backups.list(cell.id),
      () => store.retention?.prune(cell.id) as Promise<unknown>,
    ]
    for (const call of rejected)
      expect((await rejectedBy(call() as Promise<unknown>)).code).toBe('taken_over')
    expect(log.errors).toMatchObject([{ err: { code: 'taken_over' } }])

    place.clock.advance(1_000 * HOUR_MS)
    await store.close()
    expect(filesBelow(place.objects)).toEqual(before)
    await second.openCell(cell.id).ensureLocal()
    expect(notes(second.openCell(cell.id))).toEqual(['stored'])
    await second.close()
  })

  test('ends every watch, also one that begins after that: what follows is committed elsewhere', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    const watch = cell.watch()
    expect(await watch.next()).toMatchObject({ value: { type: 'reset', reason: 'start' } })
    const next = rejectedBy(watch.next())
    const second = await other.open({ objectStore: place.folder(), takeOver: true })
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('taken_over')
    expect((await next).code).toBe('taken_over')
    expect((await rejectedBy(cell.watch().next())).code).toBe('taken_over')
    await second.close()
  })

  test('learns it with its next record, although nothing changes', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.core.catalogStored()
    const second = await other.open({ objectStore: place.folder(), takeOver: true })
    place.clock.advance(HOUR_MS)
    await turnsUntil(() => store.core.guard?.failure !== undefined, 'the store knows that it was taken over')
    expect(codeOf(() => addRow(cell, 'late'))).toBe('taken_over')
    await second.close()
  })

  test('learns it once the object store answers, where that did not answer at the start', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.close()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    failing.forGood = true
    failing.error = () => new CellError('object_store_unavailable', 'Down (injected).')
    const late = await place.open({ objectStore: failing })
    addRow(late.openCell(cell.id), 'only here')
    expect((await rejectedBy(late.backups.snapshot(cell.id))).code).toBe('object_store_unavailable')
    const second = await other.open({ objectStore: place.folder() })
    await second.core.catalogStored()
    const before = filesBelow(place.objects)
    failing.failAt = 0
    expect(await rejectedBy(late.backups.snapshot(cell.id))).toMatchObject({ code: 'taken_over' })
    expect(codeOf(() => notes(late.openCell(cell.id)))).toBe('taken_over')
    await late.close()
    expect(filesBelow(place.objects)).toEqual(before)
    await second.close()
  })

  test('enters later, where only the object store did not answer', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.close()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    failing.forGood = true
    const late = await place.open({ objectStore: failing })
    expect(late.core.guard?.epoch).toBeUndefined()
    failing.failAt = 0
    await late.backups.snapshot(cell.id)
    expect(late.core.guard?.epoch).toBe(2)
  })
})

describe('Stores whose clocks differ', () => {
  const shifted = (hours: number): Clock => ({ ...systemClock, now: () => Date.now() + hours * HOUR_MS })

  test.each([-1, 1])(
    'by %i hours have one history: what each has replicated is there, and the loser says so',
    async (hours) => {
      const options = (offset: number) => ({
        clock: shifted(offset),
        objectStore: place.folder(),
        durability: 'remote' as const,
        backups: { maxLagMs: 1_000 },
      })
      const first = await place.create(options(0))
      const cell = createLedger(first)
      for (const note of ['one', 'two']) {
        addRow(cell, note)
        await cell.replicated()
      }
      const second = await other.open({ ...options(hours), takeOver: true })
      const taken = second.openCell(cell.id)
      await taken.ensureLocal()
      expect(notes(taken)).toEqual(['one', 'two'])
      addRow(cell, 'late')
      expect((await rejectedBy(cell.replicated())).code).toBe('taken_over')
      for (const note of ['three', 'four']) {
        addRow(taken, note)
        await taken.replicated()
      }
      await second.backups.incremental(cell.id)
      addRow(taken, 'five')
      await taken.replicated()
      await Promise.all([first.close(), second.close()])

      const third = await new ScratchPlace().openOrCreate(options(0))
      const back = third.openCell(cell.id)
      await back.ensureLocal()
      expect(notes(back)).toEqual(['one', 'two', 'three', 'four', 'five'])
      addRow(back, 'six')
      await back.replicated()
      await third.close()
      expect((await rejectedBy(place.open(options(0)))).code).toBe('store_outdated')
      const adopted = await place.open({ ...options(0), adopt: true })
      await adopted.openCell(cell.id).ensureLocal()
      expect(notes(adopted.openCell(cell.id))).toEqual(['one', 'two', 'three', 'four', 'five', 'six'])
      await adopted.close()
    },
  )
})

describe('A second store in the same process', () => {
  test('is refused on the same object store, until the first one is closed', async () => {
    const store = await place.create()
    expect((await rejectedBy(other.open({ objectStore: place.folder() }))).code).toBe('object_store_in_use')
    await store.close()
    const second = await other.open({ objectStore: place.folder() })
    expect(second.id).toBe(store.id)
    await second.close()
    expect((await rejectedBy(place.open())).code).toBe('store_outdated')
  })
})

describe('What the fence costs', () => {
  test('is one look for each backup, and nothing while nothing changes', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await store.core.catalogStored()
    recording.forget()
    for (let i = 0; i < 3; i++) {
      addRow(cell, `row ${i}`)
      await store.backups.incremental(cell.id)
    }
    expect(recording.fenceCalls).toEqual(Array(3).fill({ call: 'head', key: 'fence/0000000002' }))
    recording.forget()
    place.clock.advance(HOUR_MS / 2)
    expect([...recording.calls, ...recording.fenceCalls]).toEqual([])
  })
})

describe('A directory that has an object store', () => {
  test('is not opened with another one by mistake, and says so where it is opened without one', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.close()
    expect(await rejectedBy(place.open({ objectStore: other.folder() }))).toMatchObject({
      code: 'invalid_setting',
      details: { field: 'objectStore' },
      message: expect.stringMatching(/kept.*moveObjectStore/),
    })
    const log = new KeptLog()
    const without = await place.open({ objectStore: undefined, log })
    expect(log.warnings).toMatchObject([{ url: place.folder().url }])
    await without.close()
    const moved = await place.open({ objectStore: other.folder(), moveObjectStore: true })
    expect((await moved.backups.incremental(cell.id)).baseVersion).toBeNull()
    await moved.close()
    const back = await place.open({ moveObjectStore: true })
    await back.close()
  })

  test('goes on with it where it has got another URL', async () => {
    const store = await place.create()
    await store.close()
    fs.renameSync(place.objects, other.objects)
    const again = await place.open({ objectStore: other.folder() })
    expect(again.id).toBe(store.id)
    await again.close()
  })

  test('is set aside by an adoption only if the object store has other history', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    await store.close()
    const second = await other.open({ objectStore: place.folder() })
    await second.openCell(cell.id).ensureLocal()
    addRow(second.openCell(cell.id), 'two')
    await second.backups.incremental(cell.id)
    await second.close()
    const adopting = await place.open({ adopt: true })
    await adopting.openCell(cell.id).ensureLocal()
    expect(notes(adopting.openCell(cell.id))).toEqual(['one', 'two'])
    await adopting.close()
    const again = await place.open({ adopt: true })
    expect(notes(again.openCell(cell.id))).toEqual(['one', 'two'])
    await again.close()
    const setAside = filesBelow(place.data).filter((file) => file.startsWith('set-aside-'))
    expect(setAside.filter((file) => file.endsWith('/catalog.db'))).toHaveLength(1)
    const empty = new ScratchPlace()
    const nothing = { objectStore: empty.folder(), adopt: true, moveObjectStore: true }
    expect((await rejectedBy(place.open(nothing))).code).toBe('invalid_setting')
  })
})
