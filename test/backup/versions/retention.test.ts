import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ListOptions, ObjectEntry } from '../../../src/backup/object-store/object-store.ts'
import type { BackupOrigin } from '../../../src/backup/versions/backup-types.ts'
import type { Retention } from '../../../src/backup/versions/retention/retention.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import {
  type Call,
  FailingStore,
  GatedStore,
  PassingStore,
  RecordingStore,
} from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { seededRandom } from '../../support/seed.ts'
import { rejectedBy } from '../../support/thrown.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const place = ScratchPlace.perTest()

/** Everything that is stored of a cell. */
function objects(id: string): string[] {
  return fs.readdirSync(path.join(place.objects, 'snapshots', id)).sort()
}

/** A listing does not show one object yet. */
class LaggingStore extends PassingStore {
  hidden: string | undefined

  override async *list(prefix: string, options?: ListOptions): AsyncGenerator<ObjectEntry> {
    for await (const entry of super.list(prefix, options)) if (entry.key !== this.hidden) yield entry
  }
}

/** Lets something happen when a pruning has listed the versions, and reads the marks next to them. */
class InterruptedStore extends PassingStore {
  atMarks: (() => Promise<unknown>) | undefined

  protected override async before(call: Call, key: string): Promise<void> {
    const { atMarks } = this
    if (call !== 'get' || !key.includes('/marks-') || atMarks === undefined) return
    this.atMarks = undefined
    await atMarks()
  }
}

function stored({ id }: Cell): string[] {
  return objects(id).filter((name) => name.startsWith('backup-'))
}

/** A store that removes nothing unless the test says so. */
function byHand(keep: string) {
  return { backups: { keep, prune: false } }
}

function nameOf(version: string): string {
  return version.split('/').at(-1) as string
}

function retentionOf(store: CellStore): Retention {
  return store.retention as Retention
}

async function actions(store: CellStore, cell: Cell): Promise<Record<string, string>> {
  const { versions } = await retentionOf(store).prune(cell.id, { dryRun: true })
  return Object.fromEntries(versions.map(({ version, action, reason }) => [version, reason ?? action]))
}

/** Marks, lets a day pass, and removes. */
async function pruneFully(store: CellStore, cell: Cell): Promise<void> {
  await retentionOf(store).prune(cell.id)
  place.clock.advance(DAY_MS)
  await retentionOf(store).prune(cell.id)
}

async function snapshots(store: CellStore, cell: Cell, count: number, everyMs: number): Promise<string[]> {
  const made: string[] = []
  for (let i = 0; i < count; i++) {
    place.clock.advance(everyMs)
    addRow(cell, `row ${i}`)
    made.push((await store.backups.snapshot(cell.id)).version)
  }
  return made
}

async function expectAllRestorable(store: CellStore, cell: Cell, states: ReadonlyMap<string, string[]>) {
  const { backups } = await store.backups.list(cell.id, { limit: 1_000 })
  expect(backups.map(({ version }) => nameOf(version)).sort()).toEqual(stored(cell))
  for (const { version } of backups) {
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(states.get(version))
  }
}

describe('Retention', () => {
  test("is not moved by a tenant's 60 backups in a row: the good snapshot stays", async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'good')
    const { version: good } = await store.backups.snapshot(cell.id, { origin: 'schedule' })
    place.clock.advance(3 * DAY_MS)
    cell.sql('DELETE FROM ledger')
    for (let i = 0; i < 60; i++) {
      addRow(cell, `vandal ${i}`)
      await store.backups.incremental(cell.id, { origin: 'tenant' })
    }
    await pruneFully(store, cell)
    place.clock.advance(20 * DAY_MS)
    await pruneFully(store, cell)
    await store.backups.restore(cell.id, { version: good })
    expect(notes(cell)).toEqual(['good'])
  })

  test('marks a version a day before it removes it, across a restart, and on a machine that has lost everything', async () => {
    const store = await place.create(byHand('all:1d'))
    const cell = createLedger(store)
    const [old, ...kept] = await snapshots(store, cell, 3, HOUR_MS)
    place.clock.advance(DAY_MS)
    const [newest] = await snapshots(store, cell, 1, HOUR_MS)
    expect(await actions(store, cell)).toMatchObject({ [old as string]: 'mark', [kept[0] as string]: 'mark' })
    await retentionOf(store).prune(cell.id)
    expect(await actions(store, cell)).toMatchObject({ [old as string]: 'wait' })
    expect(objects(cell.id).filter((name) => name.startsWith('marks-'))).toHaveLength(1)
    await store.close()
    place.loseData()
    const again = await place.open(byHand('all:1d'))
    place.clock.advance(DAY_MS - 1)
    await retentionOf(again).prune(cell.id)
    expect(stored(cell)).toHaveLength(4)
    place.clock.advance(1)
    await retentionOf(again).prune(cell.id)
    // The newest two bases stay, since none was ever proven.
    expect(stored(cell)).toEqual([kept[1], newest].map((version) => nameOf(version as string)))
    expect(objects(cell.id)).toEqual(stored(cell))
  })

  test('takes marks back that a wrong clock has made', async () => {
    const store = await place.create({ backups: { prune: false } })
    const cell = createLedger(store)
    await snapshots(store, cell, 5, 2 * DAY_MS)
    place.clock.step(4_000 * DAY_MS)
    await retentionOf(store).prune(cell.id)
    expect(Object.values(await actions(store, cell))).toContain('wait')
    place.clock.step(-4_000 * DAY_MS)
    await retentionOf(store).prune(cell.id)
    expect(objects(cell.id)).toEqual(stored(cell))
    expect(stored(cell)).toHaveLength(5)
  })

  test('removes nothing for a day after the clock was set, however far, and then goes on', async () => {
    const store = await place.create(byHand('all:1d'))
    const cell = createLedger(store)
    await snapshots(store, cell, 5, HOUR_MS)
    await retentionOf(store).prune(cell.id)
    for (let i = 0; i < 3; i++) {
      place.clock.step(30 * DAY_MS)
      await retentionOf(store).prune(cell.id)
    }
    expect(stored(cell)).toHaveLength(5)
    place.clock.advance(DAY_MS - 1)
    await retentionOf(store).prune(cell.id)
    expect(stored(cell)).toHaveLength(5)
    place.clock.advance(1)
    await retentionOf(store).prune(cell.id)
    expect(stored(cell)).toHaveLength(2)
  })

  test('of random backups leaves only what restores, at each moment', async () => {
    const random = seededRandom()
    const store = await place.create({ backups: { keep: 'all:6h,hourly:2d,daily:9d' } })
    const cell = createLedger(store)
    const states = new Map<string, string[]>()
    const origins: BackupOrigin[] = ['schedule', 'owner', 'tenant']
    for (let i = 0; i < 60; i++) {
      place.clock.advance(random.pick([60_000, HOUR_MS, 5 * HOUR_MS, DAY_MS]))
      if (random.chance(0.05)) place.clock.step(-DAY_MS)
      addRow(cell, `row ${i}`)
      const kind = random.chance(0.3) ? 'snapshot' : 'incremental'
      const { version } = await store.backups[kind](cell.id, { origin: random.pick(origins) })
      states.set(version, notes(cell))
      if (i % 20 === 19) await expectAllRestorable(store, cell, states)
    }
    expect(stored(cell).length).toBeLessThan(60)
  })

  test('keeps what is pinned until it is unpinned, also where the catalog is lost', async () => {
    const keep = byHand('all:1d')
    const store = await place.create(keep)
    const cell = createLedger(store)
    const [first, second] = await snapshots(store, cell, 6, DAY_MS)
    await retentionOf(store).pin(cell.id, first as string)
    await retentionOf(store).pin(cell.id, first as string)
    await store.close()
    place.loseData()
    const again = await place.open(keep)
    await pruneFully(again, cell)
    expect(stored(cell)).toContain(nameOf(first as string))
    expect(stored(cell)).not.toContain(nameOf(second as string))
    await retentionOf(again).unpin(cell.id, first as string)
    await pruneFully(again, cell)
    expect(stored(cell)).not.toContain(nameOf(first as string))
  })

  test('pins no version that is not there, and none of another cell', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    const missing = version.replace(/\d{3}Z$/, '999Z')
    const pin = (which: string) => rejectedBy(retentionOf(store).pin(cell.id, which))
    expect((await pin(missing)).code).toBe('backup_not_found')
    expect((await pin('newest')).code).toBe('invalid_version')
    const other = createLedger(store)
    const { version: others } = await store.backups.snapshot(other.id)
    expect((await pin(others)).code).toBe('backup_not_found')
    expect(objects(cell.id)).toEqual(stored(cell))
  })

  test.each(['pinned', 'restored', 'proven'] as const)(
    'removes no version that is %s while it decides',
    async (how) => {
      const interrupted = new InterruptedStore(place.folder())
      const store = await place.create({ ...byHand('daily:2d'), objectStore: interrupted })
      const cell = createLedger(store)
      const [first = ''] = await snapshots(store, cell, 8, DAY_MS)
      await retentionOf(store).prune(cell.id)
      place.clock.advance(DAY_MS)
      expect(await actions(store, cell)).toMatchObject({ [first]: 'remove' })
      const meanwhile = {
        pinned: () => retentionOf(store).pin(cell.id, first),
        restored: () => store.backups.restore(cell.id, { version: first }),
        proven: () => retentionOf(store).recordProven(cell.id, first),
      }
      interrupted.atMarks = meanwhile[how]
      await retentionOf(store).prune(cell.id)
      expect(interrupted.atMarks).toBeUndefined()
      expect(stored(cell)).toContain(nameOf(first))
      expect(await actions(store, cell)).toMatchObject({ [first]: how === 'proven' ? 'proven' : 'pinned' })
    },
  )

  test('leaves a version that is pinned while newer ones are removed, and what is older, to the next look', async () => {
    const objectStore = new GatedStore(place.folder())
    const store = await place.create({ ...byHand('all:1d'), objectStore })
    const cell = createLedger(store)
    const [oldest, pinned, newer] = await snapshots(store, cell, 7, DAY_MS)
    objectStore.gates = (call, key) => call === 'delete' && key.includes('/backup-')
    const pruned = pruneFully(store, cell)
    await objectStore.arrival()
    // It is answered once this removal has ended.
    const pin = retentionOf(store).pin(cell.id, pinned as string)
    await expect.poll(() => objects(cell.id).join()).toContain('pin-')
    objectStore.open()
    await Promise.all([pruned, pin])
    expect(stored(cell)).not.toContain(nameOf(newer as string))
    expect(stored(cell)).toContain(nameOf(pinned as string))
    expect(await actions(store, cell)).toMatchObject({
      [pinned as string]: 'pinned',
      [oldest as string]: 'remove',
    })
  })

  test("follows a cell's own plan in place of the store's", async () => {
    const store = await place.create(byHand('all:1d'))
    const cell = createLedger(store)
    await retentionOf(store).setPlan(cell.id, 'all:30d')
    expect(await retentionOf(store).ownPlan(cell.id)).toBe('all:30d')
    await snapshots(store, cell, 6, DAY_MS)
    await pruneFully(store, cell)
    expect(stored(cell)).toHaveLength(6)
    expect((await rejectedBy(retentionOf(store).setPlan(cell.id, '30'))).code).toBe('invalid_setting')
    await retentionOf(store).setPlan(cell.id, null)
    expect(objects(cell.id)).toEqual(stored(cell))
    await pruneFully(store, cell)
    expect(stored(cell)).toHaveLength(2)
  })

  test('removes only what is older than the base that was proven last, and remembers the proof', async () => {
    const keep = byHand('all:1h')
    const store = await place.create(keep)
    const cell = createLedger(store)
    const made = await snapshots(store, cell, 6, DAY_MS)
    await retentionOf(store).recordProven(cell.id, made[1] as string)
    await retentionOf(store).recordProven(cell.id, made[2] as string)
    expect(retentionOf(store).lastProven(cell.id)).toEqual({ version: made[2], provenAt: place.clock.now() })
    expect(objects(cell.id).filter((name) => name.startsWith('proven-'))).toHaveLength(1)
    await store.close()
    place.loseData()
    const again = await place.open(keep)
    await pruneFully(again, cell)
    expect(stored(cell)).toEqual(made.slice(2).map(nameOf))
    expect(retentionOf(again).lastProven(cell.id)?.version).toBe(made[2])
    await retentionOf(again).recordProven(cell.id, made[5] as string)
    await pruneFully(again, cell)
    expect(stored(cell)).toEqual([nameOf(made[5] as string)])
  })

  test('keeps damaged versions within the plan, and lets none of them stand for a good one', async () => {
    const keep = byHand('daily:30d')
    const store = await place.create(keep)
    const cell = createLedger(store)
    addRow(cell, 'good')
    const { version: good } = await store.backups.snapshot(cell.id)
    place.clock.advance(HOUR_MS)
    const { version: damaged } = await store.backups.snapshot(cell.id)
    fs.writeFileSync(path.join(place.objects, damaged), 'damaged')
    await snapshots(store, cell, 4, 2 * DAY_MS)
    await pruneFully(store, cell)
    expect(stored(cell)).toEqual(expect.arrayContaining([nameOf(good), nameOf(damaged)]))
    await store.backups.restore(cell.id, { version: good })
    expect(notes(cell)).toEqual(['good'])
  })

  test('keeps what a version rests on also where a link between the two is gone: it may come back', async () => {
    const store = await place.create(byHand('all:1d,daily:30d'))
    const cell = createLedger(store)
    const [base] = await snapshots(store, cell, 1, HOUR_MS)
    addRow(cell, 'link')
    const { version: link } = await store.backups.incremental(cell.id)
    addRow(cell, 'top')
    const { version: top } = await store.backups.incremental(cell.id)
    await snapshots(store, cell, 2, HOUR_MS)
    const file = path.join(place.objects, link)
    const bytes = fs.readFileSync(file)
    fs.rmSync(file)
    place.clock.advance(2 * DAY_MS)
    for (let i = 0; i < 2; i++) await pruneFully(store, cell)
    expect(stored(cell)).toEqual(expect.arrayContaining([base, top].map((each) => nameOf(each as string))))
    fs.writeFileSync(file, bytes)
    await store.backups.restore(cell.id, { version: top })
    expect(notes(cell)).toEqual(['row 0', 'link', 'top'])
  })

  test('that fails is no failure of the backup, and is made up for by a later one', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { keep: 'all:1h' } })
    const cell = createLedger(store)
    await snapshots(store, cell, 2, DAY_MS)
    failing.failFromHere(1, (call) => call === 'delete')
    failing.forGood = true
    await snapshots(store, cell, 5, DAY_MS)
    expect(stored(cell)).toHaveLength(7)
    failing.failAt = 0
    await snapshots(store, cell, 3, DAY_MS)
    expect(stored(cell).length).toBeLessThan(6)
  })

  test('that ends at any of its requests leaves only what restores', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { keep: 'all:1h', prune: false } })
    const cell = createLedger(store)
    const states = new Map<string, string[]>()
    for (let i = 0; i < 9; i++) {
      addRow(cell, `row ${i}`)
      const { version } = await store.backups[i % 3 === 0 ? 'snapshot' : 'incremental'](cell.id)
      states.set(version, notes(cell))
      place.clock.advance(HOUR_MS)
    }
    place.clock.advance(DAY_MS)
    await retentionOf(store).prune(cell.id)
    place.clock.advance(DAY_MS)
    for (let n = 1; n < 40; n++) {
      failing.failFromHere(n)
      const done = await retentionOf(store)
        .prune(cell.id)
        .then(() => true)
        .catch(() => false)
      failing.failAt = 0
      await expectAllRestorable(store, cell, states)
      if (done) break
    }
    // The current chain, one base before it (the newest two, since none was proven), and what the cell was restored to.
    expect(stored(cell)).toHaveLength(5)
  })

  test('removes no base whose incremental stays for another day, as after a listing that lagged behind', async () => {
    const lagging = new LaggingStore(place.folder())
    let store = await place.create({ objectStore: lagging, ...byHand('all:1h') })
    let cell = createLedger(store)
    const states = new Map<string, string[]>()
    const back = async (kind: 'snapshot' | 'incremental') => {
      addRow(cell, kind)
      const { version } = await store.backups[kind](cell.id)
      states.set(version, notes(cell))
      return version
    }
    await back('snapshot')
    const incremental = await back('incremental')
    for (let i = 0; i < 3; i++) await back('snapshot')
    place.clock.advance(2 * DAY_MS)
    // A process knows what it has stored itself.
    await store.close()
    store = await place.open({ objectStore: lagging, ...byHand('all:1h') })
    cell = store.openCell(cell.id)
    lagging.hidden = incremental
    await retentionOf(store).prune(cell.id)
    lagging.hidden = undefined
    place.clock.advance(HOUR_MS)
    await retentionOf(store).prune(cell.id)
    place.clock.advance(DAY_MS - HOUR_MS)
    await retentionOf(store).prune(cell.id)
    expect(stored(cell)).toContain(nameOf(incremental))
    await expectAllRestorable(store, cell, states)
    place.clock.advance(HOUR_MS)
    await retentionOf(store).prune(cell.id)
    // The newest two bases, and what the cell was restored to.
    expect(stored(cell)).toHaveLength(3)
  })

  test('reads no manifest of a version that this machine stored, also after a restart', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await snapshots(store, cell, 3, 60_000)
    addRow(cell, 'since')
    await store.backups.incremental(cell.id)
    await store.close()
    const again = await place.open({ objectStore: recording })
    recording.forget()
    const { versions } = await retentionOf(again).prune(cell.id)
    expect(versions).toHaveLength(4)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list'])
  })

  test('asks for nothing until it is due, and reads no manifest twice', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording, backups: { keep: 'hourly:2d,daily:30d' } })
    const cell = createLedger(store)
    await snapshots(store, cell, 5, 60_000)
    recording.forget()
    await store.backups.snapshot(cell.id)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list', 'put', 'head'])
    await store.close()
    const again = await place.open({ objectStore: recording, backups: { keep: 'hourly:2d,daily:30d' } })
    await retentionOf(again).prune(cell.id)
    recording.forget()
    await retentionOf(again).prune(cell.id)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list', 'get'])
    expect(recording.calls[1]?.key).toContain('/marks-')
    place.clock.advance(7 * HOUR_MS)
    recording.forget()
    await again.backups.snapshot(cell.id)
    expect(recording.count('list')).toBe(2)
  })

  test('can be left to its owner: then nothing goes of its own accord', async () => {
    const store = await place.create({ backups: { keep: 'all:1h', prune: false } })
    const cell = createLedger(store)
    await snapshots(store, cell, 6, DAY_MS)
    expect(stored(cell)).toHaveLength(6)
  })

  test("thins the catalog's versions too, and keeps its current chain", async () => {
    const store = await place.create({ backups: { prune: false } })
    for (let day = 0; day < 4; day++) {
      for (let i = 0; i < 18; i++) {
        store.createCell()
        await store.core.catalogStored()
      }
      place.clock.advance(DAY_MS)
    }
    const catalog = () => objects(store.id).filter((name) => name.startsWith('backup-'))
    expect(catalog().length).toBeGreaterThan(70)
    await retentionOf(store).prune(store.id)
    place.clock.advance(DAY_MS)
    await retentionOf(store).prune(store.id)
    expect(catalog().length).toBeLessThan(40)
    await store.close()
    place.loseData()
    const again = await place.open()
    expect(again.cells({ limit: 1_000 }).cells).toHaveLength(72)
  })

  test('knows who asked for a version', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.backups.incremental(cell.id, { origin: 'tenant' })
    await store.backups.snapshot(cell.id, { origin: 'schedule' })
    const { versions } = await retentionOf(store).prune(cell.id, { dryRun: true })
    expect(versions.map(({ origin }) => origin)).toEqual(['schedule', 'tenant', 'owner'])
  })

  test('is refused for a plan that cannot be read', async () => {
    for (const backups of [{ keep: '30' }, { keepTenant: 'daily' }, { keep: 30 as unknown as string }]) {
      expect((await rejectedBy(place.create({ backups }))).code).toBe('invalid_setting')
    }
  })
})
