import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import {
  checkVersion,
  compareVersions,
  keyBefore,
  parseVersion,
  versionOf,
} from '../../../src/backup/versions/object-keys.ts'
import { changeOf } from '../../support/backup/changes.ts'
import { FailingStore, PassingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const CELL = '0b8f3c52-6f4e-4d0a-9a52-0d7f5a3c9e11'
const OTHER = '5d2c0f11-1c1b-4c7e-8a44-3b5a1f6e7d22'

const place = ScratchPlace.perTest()

describe('A version', () => {
  test('is the key of its object, with a compact time stamp', () => {
    const time = Date.UTC(2026, 10, 21, 2, 2, 13, 123)
    expect(versionOf(CELL, time)).toBe(`snapshots/${CELL}/backup-20261121T020213.123Z`)
    expect(parseVersion(versionOf(CELL, time))).toEqual({ cellId: CELL, time })
  })

  test('may lack the fraction of a second', () => {
    const time = Date.UTC(2026, 10, 21, 2, 2, 13)
    expect(parseVersion(`snapshots/${CELL}/backup-20261121T020213Z`)).toEqual({ cellId: CELL, time })
  })

  test.each([
    '',
    'backup-20261121T020213.123Z',
    `snapshots//backup-20261121T020213.123Z`,
    `snapshots/${CELL}/backup-20261121T020213.123`,
    `snapshots/${CELL}/backup-20261121T020213.12Z`,
    `snapshots/${CELL}/backup-20260230T020213.123Z`,
    `snapshots/${CELL}/backup-20261121T250213.123Z`,
    `snapshots/${CELL}/backup-20261121T020213.123Z/more`,
    `snapshots/${CELL.toUpperCase()}/backup-20261121T020213.123Z`,
    `snapshots/../${CELL}/backup-20261121T020213.123Z`,
    `other/${CELL}/backup-20261121T020213.123Z`,
    'latest',
  ])('%j is none: invalid_version', (version) => {
    expect(parseVersion(version)).toBeUndefined()
    expect(codeOf(() => checkVersion(version, CELL))).toBe('invalid_version')
  })

  test('of another cell is backup_not_found', () => {
    expect(codeOf(() => checkVersion(versionOf(OTHER, 0), CELL))).toBe('backup_not_found')
  })

  test('of nothing that is no cell id can be made', () => {
    for (const id of ['', '..', 'catalog', CELL.toUpperCase()]) {
      expect(codeOf(() => versionOf(id, 0))).toBe('internal')
    }
  })

  test('sorts by its time, newest first, whatever the spelling', () => {
    const key = (stamp: string) => `snapshots/${CELL}/backup-${stamp}`
    const sorted = [
      '20261121T020214Z',
      '20261121T020213.999Z',
      '20261121T020213Z',
      '20261121T020212.001Z',
    ].map(key)
    expect([...sorted].reverse().sort(compareVersions)).toEqual(sorted)
    expect(keyBefore(key('20261121T020213.000Z'))).toBe(key('20261121T020212.999Z'))
  })
})

describe('Every backup has a version of its own, later than all before it', () => {
  test('when two fall into one millisecond', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const versions: string[] = []
    for (let i = 0; i < 5; i++) versions.push((await store.backups.incremental(cell.id)).version)
    expect(versions.toSorted()).toEqual(versions)
    expect(new Set(versions).size).toBe(5)
  })

  test('when the clock steps back between them, by a year', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const first = await store.backups.snapshot(cell.id)
    place.clock.step(-365 * 86_400_000)
    addRow(cell, 'after the step')
    const second = await store.backups.incremental(cell.id)
    expect(compareVersions(first.version, second.version)).toBeGreaterThan(0)
    await store.close()
    const again = await place.open()
    const third = await again.backups.incremental(cell.id)
    expect(compareVersions(second.version, third.version)).toBeGreaterThan(0)
    const { backups } = await again.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([third.version, second.version, first.version])
    await again.backups.restore(cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['after the step'])
  })

  test('when the clock steps back and nothing is known of the ones before but what the object store lists', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const first = await store.backups.snapshot(cell.id)
    await store.close()
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(place.paths.localState + suffix, { force: true })
    place.clock.step(-86_400_000)
    const again = await place.open()
    const second = await again.backups.snapshot(cell.id)
    expect(compareVersions(first.version, second.version)).toBeGreaterThan(0)
  })

  test('when one of an unknown hand holds the stamp already, which stays as it was (invariant 9)', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const taken = versionOf(cell.id, place.clock.now())
    const bytes = Buffer.from('of an unknown hand')
    await place.folder().put(taken, bufferBody(bytes))
    const { version } = await store.backups.snapshot(cell.id)
    expect(compareVersions(taken, version)).toBeGreaterThan(0)
    expect(fs.readFileSync(path.join(place.objects, taken))).toEqual(bytes)
  })

  test('when one of an unknown hand takes the stamp between the listing and the upload', async () => {
    const racing = new RacingStore(place.folder())
    const store = await place.create({ objectStore: racing })
    const cell = createLedger(store)
    racing.rival = cell.id
    const { version } = await store.backups.snapshot(cell.id)
    expect(racing.taken).toHaveLength(3)
    for (const taken of racing.taken) expect(compareVersions(taken, version)).toBeGreaterThan(0)
    await store.backups.restore(cell.id, { version })
  })

  test('when the answer to a put was lost: what may be stored is not newer than what was acknowledged later', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'in the backup whose answer was lost')
    failing.afterTheFact = true
    failing.failFromHere(1, (call, key) => call === 'put' && key.includes(cell.id))
    await rejectedBy(store.backups.incremental(cell.id))
    failing.failAt = 0
    addRow(cell, 'in the backup that was acknowledged')
    place.clock.step(-3_600_000)
    const { version } = await store.backups.incremental(cell.id)
    const { backups } = await store.backups.list(cell.id)
    expect(backups[0]?.version).toBe(version)
    expect(backups).toHaveLength(3)
    for (const [i, { version: each }] of backups.reverse().entries()) {
      await store.backups.restore(cell.id, { version: each })
      expect(notes(cell)).toHaveLength(i)
    }
  })

  test('and one listing is all that finding it costs; the look is for the catalog', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    recording.forget()
    await store.backups.incremental(cell.id)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list', 'put', 'head'])
  })
})

describe('What a chain rests on must be where the next link goes', () => {
  test('a base that somebody removed makes the next backup a base', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version: base } = await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    fs.rmSync(path.join(place.objects, base))
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one'])
  })

  test('a link that somebody removed makes the next backup a base', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    const { version: link } = await store.backups.incremental(cell.id)
    addRow(cell, 'two')
    await store.backups.incremental(cell.id)
    fs.rmSync(path.join(place.objects, link))
    addRow(cell, 'three')
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one', 'two', 'three'])
  })

  test('an object store that was emptied gets everything again, with the catalog and the claim (invariant 14)', async () => {
    const store = await place.create()
    const [one, two] = [createLedger(store), createLedger(store)]
    for (const cell of [one, two]) {
      await store.backups.snapshot(cell.id)
      addRow(cell, 'since')
      await store.backups.incremental(cell.id)
    }
    fs.rmSync(place.objects, { recursive: true })
    addRow(one, 'after the loss')
    const { baseVersion } = await store.backups.incremental(one.id)
    expect(baseVersion).toBeNull()
    expect(changeOf(store, two.id)).toMatchObject({ dirty: true, dirtySinceSnapshot: true })
    expect((await store.backups.incremental(two.id)).baseVersion).toBeNull()
    await store.close()
    place.loseData()
    const again = await place.open()
    for (const [cell, expected] of [
      [one, ['since', 'after the loss']],
      [two, ['since']],
    ] as const) {
      await again.openCell(cell.id).ensureLocal()
      expect(notes(again.openCell(cell.id))).toEqual(expected)
    }
  })

  test('another object store than before gets everything again', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.close()
    const elsewhere = new ScratchPlace()
    const moved = await place.open({
      objectStore: new DisguisedStore(elsewhere.folder(), place.folder().url),
    })
    addRow(moved.openCell(cell.id), 'since')
    const { baseVersion } = await moved.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    await moved.close()
    place.loseData()
    const again = await place.open({ objectStore: elsewhere.folder() })
    await again.openCell(cell.id).ensureLocal()
    expect(notes(again.openCell(cell.id))).toEqual(['since'])
  })
})

/** Takes a version's key right before its put arrives, three times. */
class RacingStore extends PassingStore {
  rival = 'nobody'
  readonly taken: string[] = []

  override async put(...args: Parameters<PassingStore['put']>): Promise<void> {
    const [key] = args
    if (key.includes(this.rival) && this.taken.length < 3) {
      this.taken.push(key)
      await this.inner.put(key, bufferBody(Buffer.from('of an unknown hand')))
    }
    await super.put(...args)
  }
}

/** Says it is another store than it is: an address can stay the same while what is behind it does not. */
class DisguisedStore extends PassingStore {
  readonly #url: string

  constructor(inner: PassingStore['inner'], url: string) {
    super(inner)
    this.#url = url
  }

  override get url(): string {
    return this.#url
  }
}
