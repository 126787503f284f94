import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { BackupInfo } from '../../../src/backup/versions/backup-types.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'

const place = ScratchPlace.perTest()

/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000 } }

/** The rows of a cell, and when each was committed: what a restore to any time has to bring back. */
class Oracle {
  readonly commits: { time: number; rows: string[] }[] = []
  readonly #cell: Cell

  constructor(cell: Cell) {
    this.#cell = cell
  }

  commit(note: string): void {
    place.clock.advance(1_000)
    addRow(this.#cell, note)
    this.commits.push({ time: place.clock.now(), rows: notes(this.#cell) })
  }

  at(time: number): string[] | undefined {
    return this.commits.findLast((each) => each.time <= time)?.rows
  }
}

/** A restore of any cell here ships what all cells have committed. */
async function shipping(store: CellStore): Promise<() => Promise<unknown>> {
  const { id } = createLedger(store)
  const { version } = await place.soon(store.backups.snapshot(id))
  return () => place.soon(store.backups.restore(id, { version }))
}

/** What may happen to an object, given its bytes and those of the next one. */
const DAMAGE: Record<string, (bytes: Buffer, next: Buffer) => Buffer | undefined> = {
  deleted: () => undefined,
  cut: (bytes) => bytes.subarray(0, bytes.length - 40),
  'cut to nothing': () => Buffer.alloc(0),
  swapped: (_, next) => next,
  'flipped in its manifest': (bytes) => flipped(bytes, 100),
  'flipped in its pieces': (bytes) => flipped(bytes, bytes.length >> 1),
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] as number) ^ 1
  return copy
}

function restore(store: CellStore, cellId: string, timestamp: number) {
  return place.soon(store.backups.restore(cellId, { timestamp }))
}

describe('A restore to a time', () => {
  test('brings back every commit of a run exactly, and says when it was made', async () => {
    const store = await place.create(shipped)
    const cell = createLedger(store)
    const oracle = new Oracle(cell)
    await place.soon(store.backups.snapshot(cell.id))
    for (let i = 0; i < 12; i++) {
      oracle.commit(`row ${i}`)
      if (i % 5 === 4) await place.soon(store.backups.incremental(cell.id))
    }
    const first = oracle.commits[0]?.time as number
    const { replacedAt } = await restore(store, cell.id, first)
    expect(notes(cell)).toEqual(oracle.at(first))
    const last = oracle.commits.at(-1)?.time
    for (const { time, rows } of oracle.commits) {
      // After its last commit nobody knows how long a history that has ended went on.
      for (const timestamp of time === last ? [time] : [time, time + 999]) {
        expect(await restore(store, cell.id, timestamp)).toMatchObject({ timestamp: time })
        expect(notes(cell)).toEqual(rows)
      }
    }
    await restore(store, cell.id, replacedAt as number)
    expect(notes(cell)).toEqual(oracle.commits.at(-1)?.rows)
    await place.soon(store.close())
  })

  test('after a total loss, everything that was shipped comes back; and after a restore to a time, exactly that', async () => {
    const store = await place.create(shipped)
    const cell = createLedger(store)
    const oracle = new Oracle(cell)
    await place.soon(store.backups.snapshot(cell.id))
    const ship = await shipping(store)
    for (let i = 0; i < 4; i++) oracle.commit(`row ${i}`)
    await ship()
    await place.soon(store.close())
    place.loseData()
    const again = await place.open(shipped)
    await place.soon(again.backups.ensureLocal(cell.id))
    expect(notes(again.openCell(cell.id))).toEqual(oracle.commits.at(-1)?.rows)

    const { time, rows } = oracle.commits[1] as (typeof oracle.commits)[number]
    await restore(again, cell.id, time)
    await place.soon(again.close())
    place.loseData()
    const third = await place.open(shipped)
    await place.soon(third.backups.ensureLocal(cell.id))
    expect(notes(third.openCell(cell.id))).toEqual(rows)
    await place.soon(third.close())
  })

  test('after a total loss, a listing that lacks the newest versions sets no cell back whose log shows that there are some', async () => {
    const store = await place.create(shipped)
    const cell = createLedger(store)
    const oracle = new Oracle(cell)
    await place.soon(store.backups.snapshot(cell.id))
    for (let i = 0; i < 3; i++) oracle.commit(`row ${i}`)
    await restore(store, cell.id, oracle.commits[0]?.time as number)
    // A history of its own begins with the base that it gets at once.
    await turnsUntil(
      () => store.core.destination?.progress.find(cell.id).dirty === false,
      'the base is stored',
    )
    const { version } = (await store.backups.latest(cell.id)) as BackupInfo
    const ship = await shipping(store)
    oracle.commit('after the restore')
    await ship()
    await place.soon(store.close())
    const [stored, unlisted] = [path.join(place.objects, version), path.join(place.root, 'unlisted')]
    fs.renameSync(stored, unlisted)
    place.loseData()
    const again = await place.open(shipped)
    const refused = await rejectedBy(place.soon(again.backups.ensureLocal(cell.id)))
    expect(refused.code).toBe('object_store_unavailable')
    expect(refused.message).toContain('that the object store does not list')
    fs.renameSync(unlisted, stored)
    await place.soon(again.backups.ensureLocal(cell.id))
    expect(notes(again.openCell(cell.id))).toEqual(oracle.commits.at(-1)?.rows)
    await place.soon(again.close())
  })

  test.each(Object.keys(DAMAGE))(
    'a log object that is %s is refused by name, the moment before it is offered, and other cells are unharmed',
    async (how) => {
      const store = await place.create(shipped)
      const ship = await shipping(store)
      const cell = createLedger(store)
      const other = createLedger(store)
      for (const { id } of [cell, other]) await place.soon(store.backups.snapshot(id))
      const commits: { time: number; rows: string[] }[] = []
      for (let i = 0; i < 4; i++) {
        place.clock.advance(60_000)
        const open = store.openCell(cell.id)
        addRow(open, `row ${i}`)
        commits.push({ time: place.clock.now(), rows: notes(open) })
        if (i === 3) addRow(store.openCell(other.id), 'late')
        await ship()
      }
      await place.soon(store.close())
      const log = path.join(place.objects, 'log')
      const objects = fs.readdirSync(log).sort()
      const [bad, last] = objects.slice(-2).map((name) => path.join(log, name)) as [string, string]
      const damaged = DAMAGE[how]?.(fs.readFileSync(bad), fs.readFileSync(last))
      fs.rmSync(bad)
      if (damaged !== undefined) fs.writeFileSync(bad, damaged)
      place.loseData()
      const again = await place.open(shipped)
      const refused = await place
        .soon(again.backups.restore(cell.id, { timestamp: commits[3]?.time as number }))
        .then(
          () => undefined,
          (error) => error,
        )
      const key = `log/${path.basename(bad)}`
      expect(refused).toMatchObject({ code: 'backup_corrupt', details: { version: key } })
      expect(refused.message).toContain(key)
      const { restorableTo } = refused.details
      expect(restorableTo).toBeGreaterThanOrEqual(commits[1]?.time as number)
      await restore(again, cell.id, restorableTo)
      expect(notes(again.openCell(cell.id))).toEqual(commits[1]?.rows)
      await place.soon(again.backups.ensureLocal(other.id))
      expect(notes(again.openCell(other.id))).toEqual(['late'])
      await place.soon(again.close())
    },
  )
})
