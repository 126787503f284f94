import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'

/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000, recoverInBackground: false } }

/** What may happen to an object, given its bytes and those of another one. */
const DAMAGE: Record<string, (bytes: Buffer, other: Buffer) => Buffer | undefined> = {
  deleted: () => undefined,
  cut: (bytes) => bytes.subarray(0, 200),
  swapped: (_, other) => other,
  'flipped in its manifest': (bytes) => flipped(bytes, 100),
  'flipped in its pieces': (bytes) => flipped(bytes, bytes.length - 300),
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] as number) ^ 1
  return copy
}

/** The states of a cell, and when each began. */
interface History {
  id: string
  states: { time: number; rows: string[] }[]
  /** The log objects that have something of it. */
  keys: string[]
}

const place = () => new ScratchPlace()
type Place = ScratchPlace
const soon = <T>(at: Place, work: Promise<T>) => at.advanceUntil(work, 1_000)

/** Three cells whose commits are in six log objects: the first cell's in all, the last one's in the first only. */
async function written(at: Place): Promise<{ histories: History[]; keys: string[] }> {
  const store = await at.create(shipped)
  const cells = [0, 1, 2].map(() => createLedger(store))
  for (const { id } of cells) await soon(at, store.backups.snapshot(id))
  const histories = cells.map(({ id }): History => ({ id, states: [], keys: [] }))
  for (let object = 0; object < 6; object++) {
    for (const [i, { id, states }] of histories.entries()) {
      if (object % (3 * i + 1) > 0 || object > 6 - 2 * i) continue
      at.clock.advance(60_000)
      const cell = store.openCell(id)
      addRow(cell, `${object}`)
      states.push({ time: at.clock.now(), rows: notes(cell) })
    }
    await soon(at, store.backups.flush())
  }
  await soon(at, store.close())
  const logs = await storedLogs(at.folder())
  for (const history of histories) {
    const own = logs.filter(({ manifest }) => manifest.cells.some(({ cell_id }) => cell_id === history.id))
    history.keys = own.map(({ key }) => key)
  }
  return { histories, keys: logs.map(({ key }) => key) }
}

async function refused(work: Promise<unknown>): Promise<CellError | undefined> {
  try {
    await work
    return undefined
  } catch (error) {
    if (error instanceof CellError) return error
    throw error
  }
}

test.each(Object.keys(DAMAGE))(
  'after a total loss with a log object that is %s, the node starts, and each cell is what it was or refused by the name of the object, with a moment that can be restored',
  async (how) => {
    const at = place()
    const { histories, keys } = await written(at)
    const seen = { whole: 0, refused: 0 }
    for (const [i, bad] of keys.entries()) {
      // None names the newest one yet, and the oldest one may have gone for its age: docs/promises.md.
      if (how === 'deleted' && (i === 0 || bad === keys.at(-1))) continue
      const file = path.join(at.objects, bad)
      const bytes = fs.readFileSync(file)
      const damaged = DAMAGE[how]?.(
        bytes,
        fs.readFileSync(path.join(at.objects, keys[i === 0 ? 1 : i - 1] as string)),
      )
      fs.rmSync(file)
      if (damaged !== undefined) fs.writeFileSync(file, damaged)
      at.loseData()
      const before = bucketOf(at)
      const store = await at.open(shipped)
      for (const history of histories) {
        const { id, states, keys: own } = history
        const error = await refused(soon(at, store.openCell(id).ensureLocal()))
        // A manifest that cannot be read may have had something of the cell, unless a later piece goes on from what is known.
        const isProven = how === 'flipped in its pieces' || own.some((key) => key > bad)
        expect(error === undefined, `${own} without ${bad}: ${error}`).toBe(isProven && !own.includes(bad))
        if (error === undefined) {
          expect(notes(store.openCell(id))).toEqual(states.at(-1)?.rows)
          seen.whole++
        } else {
          expectNamed(error, bad)
          await expectOffer(at, store, history, error)
          seen.refused++
        }
      }
      await soon(at, store.close())
      restoreBucket(at, before)
      fs.rmSync(file, { force: true })
      fs.writeFileSync(file, bytes)
    }
    expect(Math.min(seen.whole, seen.refused)).toBeGreaterThan(2)
  },
)

function expectNamed(error: CellError, key: string): void {
  expect(error).toMatchObject({ code: 'backup_corrupt', details: { version: key } })
  expect(error.message).toContain(key)
}

async function expectOffer(at: Place, store: CellStore, { id, states }: History, error: CellError) {
  const timestamp = error.details.restorableTo as number
  await soon(at, store.backups.restore(id, { timestamp }))
  const rows = states.findLast(({ time }) => time <= timestamp)?.rows ?? []
  expect(notes(store.openCell(id))).toEqual(rows)
}

/** What a node adds to the bucket goes again. */
function bucketOf(at: Place): Set<string> {
  return new Set(fs.readdirSync(at.objects, { recursive: true }).map(String))
}

function restoreBucket(at: Place, before: ReadonlySet<string>): void {
  for (const name of bucketOf(at))
    if (!before.has(name)) fs.rmSync(path.join(at.objects, name), { recursive: true, force: true })
}
