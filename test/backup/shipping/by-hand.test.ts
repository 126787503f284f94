import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test } from 'vitest'
import type { LogPiece } from '../../../src/backup/changes/log/cell-log.ts'
import type { ObjectBody } from '../../../src/backup/object-store/object-store.ts'
import type { CellPieces, StoredPiece } from '../../../src/backup/shipping/log/log-manifest.ts'
import { makeLogObject } from '../../../src/backup/shipping/log/log-object.ts'
import { parseVersion } from '../../../src/backup/versions/object-keys.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { HAS_TOOLS, query, recoverToByHand } from '../../support/backup/by-hand.ts'
import { digestOfFile } from '../../support/backup/database-digest.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs, type TestedLog } from '../../support/backup/stored-logs.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

/** Flushes alone ship: the longest lag is over after all tests. */
const OPTIONS = { checkpointBytes: 40_000, openCellsMax: 1, backups: { maxLagMs: 3_600_000 } }

const place = ScratchPlace.perTest()
let store: CellStore
let commits: { time: number; rows: string[] }[]
beforeEach(async () => {
  store = await place.create(OPTIONS)
  commits = []
  return () => place.soon(store.close())
})

function commit(cell: Cell, bytes?: number): void {
  place.clock.advance(1_000)
  addRow(cell, `row ${commits.length}`, bytes)
  commits.push({ time: place.clock.now(), rows: notes(cell) })
}

const flush = () => place.soon(store.backups.flush())

const rowsOf = (file: string) => query(file, 'SELECT note FROM ledger ORDER BY n').flat()

function rowsByHand(cellId: string, moment: number | string): unknown[] {
  return rowsOf(recoverToByHand(place.objects, cellId, moment))
}

async function piecesOf(cellId: string) {
  const logs = await storedLogs(place.folder())
  return logs.flatMap(({ manifest }) =>
    manifest.cells.filter(({ cell_id }) => cell_id === cellId).flatMap(({ pieces }) => pieces),
  )
}

/** Stores one more log object. */
async function ship(
  cellId: string,
  { page_size: pageSize, ...part }: StoredPiece & { path: string },
): Promise<void> {
  const last = (await storedLogs(place.folder())).at(-1) as TestedLog
  const { store_id, epoch, number, cells } = last.manifest
  const { history } = cells.find((each) => each.cell_id === cellId) as CellPieces
  const now = place.clock.now()
  const piece: LogPiece = { ...part, pageSize, commits: [[part.to, now]] }
  const { object } = await makeLogObject(
    {
      ...{ store_id, epoch, number: number + 1, previous: { key: last.key, sha256: last.sha256 } },
      ...{ logs: [{ cellId, accountId: null, history, pieces: [piece] }], completeTo: now, now },
    },
    { directory: tempDirectory('cellstore-spool') },
  )
  await place.folder().put(object?.manifest.key as string, object?.body as ObjectBody)
}

/** What the library makes of the same moment. */
async function byTheLibrary(cellId: string, timestamp: number): Promise<string> {
  const { id } = await place.soon(store.createCell({ from: { cellId, timestamp } }))
  return digestOfFile(place.paths.cell(id).database)
}

describe.runIf(HAS_TOOLS)('By hand, as docs/format.md says,', () => {
  test('every moment of a cell comes back as the library restores it, across versions and checkpoints', async () => {
    const cell = createLedger(store)
    const other = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    for (let i = 0; i < 8; i++) {
      commit(cell, 12_000)
      // Closes the cell, so that its next commit begins a write-ahead log.
      if (i % 3 === 1) addRow(other, `row ${i}`)
      if (i !== 3) await flush()
      if (i === 4) await place.soon(store.backups.incremental(cell.id))
    }
    await flush()
    const pieces = await piecesOf(cell.id)
    expect(pieces.length).toBeGreaterThan(5)
    expect(new Set(pieces.map(({ sequence }) => sequence)).size).toBeGreaterThan(2)
    const last = commits.at(-1)?.time
    for (const { time, rows } of commits) {
      // Nobody knows how long the state of the last commit lasted.
      const moment = time === last ? time : time + 999
      const file = recoverToByHand(place.objects, cell.id, moment)
      expect(rowsOf(file)).toEqual(rows)
      expect(digestOfFile(file)).toBe(await byTheLibrary(cell.id, time))
    }
  })

  test('what a power loss took back is not in it', async () => {
    const cell = createLedger(store)
    const other = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    commit(cell)
    await flush()
    const before = (await piecesOf(cell.id)).at(-1) as StoredPiece
    const aside = copyOf(place.paths.cell(cell.id).database)
    commit(cell)
    addRow(other, 'closes the cell')
    commit(cell)
    await flush()
    const lost = commits.splice(1)
    place.clock.advance(1_000)
    const wal = commitElsewhere(aside, 'after the power loss')
    commits.push({ time: place.clock.now(), rows: ['row 0', 'after the power loss'] })
    await ship(cell.id, { ...before, ...wal, from: before.to })
    for (const { time, rows } of [
      commits[0],
      { ...lost[1], rows: ['row 0'] },
      commits[1],
    ] as typeof commits) {
      const file = recoverToByHand(place.objects, cell.id, time)
      expect(rowsOf(file)).toEqual(rows)
      expect(digestOfFile(file)).toBe(await byTheLibrary(cell.id, time))
    }
  })

  test('the last state of a lost cell comes back, also after a restore to a time', async () => {
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    for (let i = 0; i < 3; i++) commit(cell)
    await flush()
    expect(rowsByHand(cell.id, '9999-12-31')).toEqual(commits.at(-1)?.rows)
    await place.soon(store.backups.restore(cell.id, { timestamp: commits[1]?.time as number }))
    await place.soon(store.close())
    place.loseData()
    const newest = fs
      .readdirSync(path.join(place.objects, 'snapshots', cell.id))
      .sort()
      .at(-1) as string
    const stamp = /-at-(.*)$/.exec(newest)?.[1] as string
    const { time } = parseVersion(`snapshots/${cell.id}/backup-${stamp}`) as { time: number }
    store = await place.open(OPTIONS)
    await place.soon(store.backups.ensureLocal(cell.id))
    expect(rowsByHand(cell.id, time)).toEqual(commits[1]?.rows)
    expect(notes(store.openCell(cell.id))).toEqual(commits[1]?.rows)
  })

  test.each(['deleted', 'swapped', 'cut', 'flipped'])(
    'a log object that is %s is never passed over',
    async (how) => {
      const cell = createLedger(store)
      await place.soon(store.backups.snapshot(cell.id))
      for (let i = 0; i < 4; i++) {
        commit(cell, 3_000)
        await flush()
      }
      const names = fs.readdirSync(path.join(place.objects, 'log')).sort()
      const [bad, next] = names.slice(-3).map((name) => path.join(place.objects, 'log', name)) as [
        string,
        string,
      ]
      const bytes = fs.readFileSync(bad)
      fs.rmSync(bad)
      if (how === 'swapped') fs.copyFileSync(next, bad)
      if (how === 'cut') fs.writeFileSync(bad, bytes.subarray(0, bytes.length >> 1))
      if (how === 'flipped') fs.writeFileSync(bad, flipped(bytes))
      expect(() => rowsByHand(cell.id, commits[3]?.time as number)).toThrow()
      fs.writeFileSync(bad, bytes)
      expect(rowsByHand(cell.id, commits[3]?.time as number)).toEqual(commits[3]?.rows)
    },
  )
})

/** The files of an open cell, as they are now. */
function copyOf(database: string): string {
  const copy = path.join(tempDirectory('cellstore-power'), 'cell.db')
  // By another process: closing a file here would drop SQLite's locks on it (invariant 4).
  for (const suffix of ['', '-wal']) execFileSync('cp', [database + suffix, copy + suffix])
  return copy
}

/** @returns the write-ahead log, which goes on where the copy ends, and how many frames it has */
function commitElsewhere(copy: string, note: string): { path: string; to: number } {
  const connection = new Database(copy)
  connection.prepare('INSERT INTO ledger (note, payload) VALUES (?, randomblob(100))').run(note)
  const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
  const kept = `${copy}-kept`
  execFileSync('cp', [`${copy}-wal`, kept])
  connection.close()
  return { path: kept, to: state?.log as number }
}

function flipped(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  const at = bytes.length >> 1
  copy[at] = (copy[at] as number) ^ 1
  return copy
}
