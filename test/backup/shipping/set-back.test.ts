import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const backups = { maxLagMs: HOUR_MS, remoteWaitMs: HOUR_MS }
/** A record is written about every 22 minutes, before a tick. */
const leaseMs = 30 * MINUTE_MS
const RECORD_MS = 25 * MINUTE_MS

/** Knows which writes are under way. */
class BusyStore extends PassingStore {
  writes = 0

  override put(...args: Parameters<PassingStore['put']>): Promise<void> {
    return this.#count(super.put(...args))
  }

  override delete(...args: Parameters<PassingStore['delete']>): Promise<void> {
    return this.#count(super.delete(...args))
  }

  async #count(write: Promise<void>): Promise<void> {
    this.writes++
    await write.finally(() => this.writes--)
  }
}

const place = ScratchPlace.perTest()
let objectStore: BusyStore
let log: KeptLog
let store: CellStore
let id: string
beforeEach(() => {
  objectStore = new BusyStore(place.folder())
  log = new KeptLog()
})

const options = () => ({ durability: 'remote', backups, leaseMs, log, objectStore }) as const
const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 150)
const cell = (): Cell => store.openCell(id)

async function commit(note: string): Promise<void> {
  place.clock.advance(MINUTE_MS)
  addRow(cell(), note)
  await soon(cell().replicated())
}

async function restart(): Promise<void> {
  await soon(store.close())
  store = await place.open(options())
}

const yesterday = () => path.join(place.root, 'yesterday')

function keepObjects(): void {
  fs.rmSync(yesterday(), { recursive: true, force: true })
  fs.cpSync(place.objects, yesterday(), { recursive: true })
}

/** Somebody puts an older copy of the bucket in its place. */
function setBack(): void {
  fs.rmSync(place.objects, { recursive: true })
  fs.cpSync(yesterday(), place.objects, { recursive: true })
}

/** The node writes its next record, and looks before that. */
async function nextRecord(): Promise<void> {
  const before = records()
  place.clock.advance(RECORD_MS)
  await turnsUntil(() => records() !== before && objectStore.writes === 0, 'the next record is written')
}

const records = () =>
  filesBelow(place.objects)
    .filter((file) => file.startsWith('holder/'))
    .join()
const fences = () => fs.readdirSync(path.join(place.objects, 'fence')).map(Number)

async function expectAfterLoss(expected: readonly string[]): Promise<void> {
  await soon(store.close())
  place.loseData()
  store = await place.open(options())
  await soon(cell().ensureLocal())
  expect(notes(cell())).toEqual(expected)
}

async function createAndKeep(): Promise<void> {
  store = await place.create(options())
  id = createLedger(store).id
  await commit('kept')
  await restart()
  keepObjects()
}

describe('A start whose object store was set back', () => {
  test.each([0, 1, 2])(
    'says so and stores everything again, also what does not change; %i starts were in the copy no longer',
    async (starts) => {
      await createAndKeep()
      await nextRecord()
      for (let i = 0; i < starts; i++) await restart()
      await commit('since')
      await store.backups.incremental(id)
      await store.backups.verify(id)
      await soon(store.close())
      setBack()
      store = await place.open(options())
      expect(log.errors).toEqual([{ url: place.folder().url }])
      expect(store.backedUpTo(id)).toBeNull()
      expect(store.retention?.lastProven(id)).toBeUndefined()
      expect(fences()).toEqual(Array.from({ length: starts + 3 }, (_, i) => i + 1))
      expect((await soon(store.backups.incremental(id))).baseVersion).toBeNull()
      await expectAfterLoss(['kept', 'since'])
    },
  )

  test('goes on in no history of before: what it acknowledges in remote is restored (invariant 14)', async () => {
    await createAndKeep()
    for (const note of ['lost 1', 'lost 2']) {
      await restart()
      await commit(note)
    }
    setBack()
    await commit('before anybody knows')
    await restart()
    for (const note of ['after', 'after that']) await commit(note)
    const all = ['kept', 'lost 1', 'lost 2', 'before anybody knows', 'after', 'after that']
    await expectAfterLoss(all)
  })

  test('is refused if another directory has used it since, even in an earlier epoch (invariant 14)', async () => {
    await createAndKeep()
    for (let i = 0; i < 3; i++) await restart()
    await soon(store.close())
    setBack()
    const other = new ScratchPlace()
    const elsewhere = await other.open({ objectStore: place.folder(), takeOver: true })
    await elsewhere.close()
    expect(Math.max(...fences())).toBe(3)
    expect((await rejectedBy(place.open(options()))).code).toBe('store_outdated')
  })

  test('says nothing if the object store has all that was stored', async () => {
    await createAndKeep()
    await nextRecord()
    for (let i = 0; i < 2; i++) await restart()
    expect(log.errors).toEqual([])
    expect(store.core.destination?.progress.find(id).history).not.toBeNull()
  })
})

describe('A node whose object store is set back while it runs', () => {
  test('learns it with its next record, and stores everything again: what it acknowledges in remote is restored (invariant 14)', async () => {
    await createAndKeep()
    await restart()
    await commit('lost')
    await nextRecord()
    setBack()
    await nextRecord()
    expect(log.errors).toEqual([{ url: place.folder().url }])
    expect(fences()).toEqual([1, 2, 3])
    for (const note of ['after', 'after that']) await commit(note)
    await restart()
    await commit('at last')
    await expectAfterLoss(['kept', 'lost', 'after', 'after that', 'at last'])
    expect(log.errors).toHaveLength(1)
  })

  test('leaves it to the next start if it is stopped before that (invariant 14)', async () => {
    await createAndKeep()
    await nextRecord()
    keepObjects()
    for (let i = 0; i < 2; i++) await nextRecord()
    await commit('lost')
    setBack()
    await restart()
    expect(log.errors).toEqual([{ url: place.folder().url }])
    for (const note of ['after', 'after that']) await commit(note)
    await expectAfterLoss(['kept', 'lost', 'after', 'after that'])
  })

  test('ends with its next record if another node has used it since, even in an earlier epoch (invariant 14)', async () => {
    await createAndKeep()
    for (let i = 0; i < 3; i++) await restart()
    setBack()
    const other = new ScratchPlace()
    const elsewhere = await other.open({ objectStore: place.folder(), takeOver: true })
    place.clock.advance(RECORD_MS)
    await turnsUntil(() => store.core.guard?.failure !== undefined, 'the node knows it')
    expect(store.core.guard?.failure).toMatchObject({
      code: 'taken_over',
      message: expect.stringMatching(/set back/),
    })
    expect(elsewhere.core.guard?.epoch).toBe(3)
    await elsewhere.core.guard?.check()
    await elsewhere.close()
  })

  test('fills one that was emptied, although nothing changes', async () => {
    await createAndKeep()
    await nextRecord()
    for (const name of fs.readdirSync(place.objects))
      fs.rmSync(path.join(place.objects, name), { recursive: true })
    await nextRecord()
    await soon(store.backups.incremental(id))
    await expectAfterLoss(['kept'])
  })
})
