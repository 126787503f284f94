import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import type { StorePaths } from '../../../src/base/files/store-paths.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { DiskImage } from '../../support/disk-image.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const MINUTE_MS = 60_000
const options = { backups: { maxLagMs: 10_000 } } as const

const place = ScratchPlace.perTest()

const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 150)

/** The local state as a power loss leaves it: what was written before the last fsync is there, and nothing after it. */
class FsyncedState {
  fsyncs = 0
  readonly #file: string
  readonly #copies = tempDirectory('fsynced')

  constructor({ localState }: StorePaths) {
    this.#file = localState
    this.#take()
    const { fsync } = fs
    vi.spyOn(fs, 'fsync').mockImplementation((descriptor, done) => {
      if (fs.fstatSync(descriptor).ino === fs.statSync(`${localState}-wal`).ino) {
        this.fsyncs++
        this.#take()
      }
      fsync(descriptor, done)
    })
  }

  /** Nobody may have it open. */
  putBack(): void {
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(this.#file + suffix, { force: true })
    for (const suffix of ['', '-wal']) fs.copyFileSync(this.#copy(suffix), this.#file + suffix)
  }

  /** By another process: closing a file here would drop SQLite's locks on it (invariant 4). */
  #take(): void {
    for (const suffix of ['', '-wal']) execFileSync('cp', [this.#file + suffix, this.#copy(suffix)])
  }

  #copy(suffix: string): string {
    return path.join(this.#copies, `local${suffix}`)
  }
}

describe('Of the rows of cells that were shipped', () => {
  test('a power loss takes none: what was shipped keeps its times, and a restore to a moment before it lacks no acknowledged commit (invariant 1)', async () => {
    let store = await place.create(options)
    const { id } = createLedger(store)
    await soon(store.backups.snapshot(id))
    const state = new FsyncedState(place.paths)
    for (const note of ['first', 'second']) {
      place.clock.advance(MINUTE_MS)
      addRow(store.openCell(id), note)
      await soon(store.backups.flush())
    }
    place.clock.advance(MINUTE_MS)
    const timestamp = place.clock.now()
    // The log of the cell was fsynced before each commit was acknowledged.
    const image = new DiskImage(place.root)
    vi.restoreAllMocks()
    await soon(store.close())
    image.putBack()
    state.putBack()
    place.directory.mayHaveLogs = true
    place.clock.advance(10 * MINUTE_MS)
    store = await place.open(options)
    expect(notes(store.openCell(id))).toEqual(['first', 'second'])
    await soon(store.backups.flush())
    const branch = await soon(store.createCell({ from: { cellId: id, timestamp } }))
    expect(notes(branch)).toEqual(['first', 'second'])
  })

  test('all are stored with one fsync for each log object', async () => {
    const store = await place.create(options)
    const cells = Array.from({ length: 20 }, () => createLedger(store))
    for (const { id } of cells) await soon(store.backups.snapshot(id))
    await soon(store.backups.flush())
    const state = new FsyncedState(place.paths)
    for (let objects = 1; objects <= 3; objects++) {
      for (const cell of cells) addRow(cell, 'shipped')
      await soon(store.backups.flush())
      expect(state.fsyncs).toBe(objects)
    }
    vi.restoreAllMocks()
  })
})

describe('A commit that was not shipped before a kill, and whose time is lost with the process', () => {
  test.each([
    ['in its WAL', {}],
    ['in kept logs, too', { checkpointBytes: 40_000 }],
  ])(
    '%s: a restore to a moment after it was acknowledged has it (invariant 1), and one to a version before it does not',
    async (_, bounds) => {
      let store = await place.create({ ...options, ...bounds })
      const { id } = createLedger(store)
      addRow(store.openCell(id), 'shipped')
      place.clock.advance(MINUTE_MS)
      await soon(store.backups.snapshot(id))
      const before = place.clock.now()
      place.clock.advance(MINUTE_MS)
      const begun = place.clock.now()
      const acknowledged: [note: string, at: number][] = []
      for (let i = 0; i < 30; i++) {
        addRow(store.openCell(id), `not shipped ${i}`, 10_000)
        acknowledged.push([`not shipped ${i}`, place.clock.now()])
        place.clock.advance(1)
      }
      const image = new DiskImage(place.root)
      await soon(store.close())
      image.putBack()
      place.directory.mayHaveLogs = true
      place.clock.advance(10 * MINUTE_MS)
      store = await place.open({ ...options, ...bounds })
      await soon(store.backups.flush())
      const at = async (timestamp: number) =>
        notes(await soon(store.createCell({ from: { cellId: id, timestamp } })))
      for (const [i, [note, time]] of acknowledged.entries())
        if (i % 7 === 0 || i === 29) expect(await at(time)).toContain(note)
      // Nothing was committed before the first of them since the version.
      expect(await at(before)).toEqual(['shipped'])
      expect(await at(begun - 1)).toEqual(['shipped'])
      // What follows has its own time.
      place.clock.advance(MINUTE_MS)
      addRow(store.openCell(id), 'later')
      await soon(store.backups.flush())
      expect(await at(place.clock.now() - 1)).not.toContain('later')
      expect(await at(place.clock.now())).toContain('later')
      await soon(store.close())
    },
  )
})
