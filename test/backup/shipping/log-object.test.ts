import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { decompressWhole } from '../../../src/backup/archive/zstd/seekable-zstd.ts'
import type { LogPiece, UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { type LogOrder, makeLogObject } from '../../../src/backup/shipping/log/log-object.ts'
import { ShippingOrder, selectLogs } from '../../../src/backup/shipping/log-selection.ts'
import { logKey, parseLogKey } from '../../../src/backup/versions/object-keys.ts'
import { hasTools } from '../../support/backup/tools.ts'
import { WalCell } from '../../support/backup/wal-cell.ts'
import { FakeClock, TEST_EPOCH_MS } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const HAS_TOOLS = hasTools('zstd', 'tar')

let folder: string
let clock: FakeClock
let cells: WalCell[]

beforeEach(() => {
  folder = tempDirectory('cellstore-log-object')
  clock = new FakeClock()
  cells = []
})
afterEach(() => {
  for (const cell of cells) cell.close()
})

function newCell(): WalCell {
  const cell = new WalCell(folder, clock)
  cells.push(cell)
  return cell
}

function unshipped(cell: WalCell): UnshippedLog {
  return cell.unshipped() as UnshippedLog
}

function orderOf(...logs: UnshippedLog[]): LogOrder {
  const completeTo = clock.now()
  return { store_id: randomUUID(), epoch: 3, number: 7, previous: null, logs, completeTo, now: clock.now() }
}

const spool = () => ({ directory: path.join(folder, 'spool') })

/** The object, its tar, and where the manifest's entry ends. */
async function made(...logs: UnshippedLog[]) {
  const { object, ...rest } = await makeLogObject(orderOf(...logs), spool())
  if (object === undefined) throw new Error('Nothing was made.')
  const bytes = Buffer.from(await object.body.read(0, object.body.size))
  await object.dispose()
  const tar = HAS_TOOLS
    ? execFileSync('zstd', ['-dqc'], { input: bytes, maxBuffer: 2 ** 30 })
    : Buffer.concat([...decompressWhole(bytes)])
  const size = Number.parseInt(tar.toString('latin1', 124, 135), 8)
  return { ...rest, ...object, bytes, tar, end: 512 + Math.ceil(size / 512) * 512 }
}

describe('A log object', () => {
  test('has each piece where its manifest says, and the SHA-256 of its bytes', async () => {
    const [one, two] = [newCell(), newCell()]
    one.commit(9_000)
    one.checkpoint()
    one.commit()
    two.commit(50_000)
    const logs = [unshipped(one), unshipped(two)]
    const { manifest, tar, end, bytes, sha256, places, leftOut } = await made(...logs)
    expect(leftOut).toEqual([])
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256)
    expect(manifest).toMatchObject({ key: 'log/0000000003-0000000007', complete: true, to: TEST_EPOCH_MS })
    expect(JSON.parse(tar.toString('utf8', 512, end).replaceAll('\0', ''))).toEqual(manifest)
    for (const [i, { cell_id, pieces }] of manifest.cells.entries()) {
      expect(cell_id).toBe(logs[i]?.cellId)
      for (const [j, piece] of pieces.entries()) {
        const source = logs[i]?.pieces[j]
        const stored = tar.subarray(end + piece.offset, end + piece.offset + piece.size)
        expect(stored.equals(fs.readFileSync(source?.path as string).subarray(0, piece.size))).toBe(true)
        expect(piece.member.length).toBeLessThanOrEqual(100)
        expect(piece.commits).toEqual(source?.commits)
      }
    }
    expect(manifest.cells[0]?.pieces.map(({ sequence }) => sequence)).toEqual([1, 2])
    const ends = logs.map(({ cellId, history, pieces }) => {
      const { sequence, to: frames } = pieces.at(-1) as (typeof pieces)[number]
      return { cellId, history, sequence, frames }
    })
    expect(places).toEqual(ends)
  })

  test.runIf(HAS_TOOLS)(
    'pieces of several objects make the WAL again, by hand, and SQLite takes it',
    async () => {
      const cell = newCell()
      const wal = path.join(folder, 'by-hand.db-wal')
      for (let object = 0; object < 4; object++) {
        for (let i = 0; i < 5; i++) cell.commit(3_000)
        const { bytes, places } = await made(unshipped(cell))
        fs.writeFileSync(path.join(folder, 'object'), bytes)
        execFileSync(
          'sh',
          [
            '-c',
            `zstd -dqc object | tar x && cat ${cell.cellId}/0*.wal >> ${wal} && rm -r ${cell.cellId}/0*.wal`,
          ],
          { cwd: folder },
        )
        for (const place of places) cell.shipped(place)
      }
      // The database as its first checkpoint left it: nothing of the log is in it.
      fs.copyFileSync(cell.firstDatabase, path.join(folder, 'by-hand.db'))
      using database = disposable(new Database(path.join(folder, 'by-hand.db')))
      expect(database.prepare('SELECT count(*), max(n) FROM rows').raw().get()).toEqual([20, 20])
    },
  )

  test('claims to be complete up to when everything was collected, also if some of it was committed later', async () => {
    const claims = async (completeTo: number, times: [number, number]) => {
      const log = unshipped(newCell())
      const pieces = log.pieces.map((piece): LogPiece => {
        const [first, last] = times
        return { ...piece, commits: [[piece.to - 1, first] as [number, number], [piece.to, last]] }
      })
      const order = { ...orderOf({ ...log, pieces }), completeTo }
      const { object } = await makeLogObject(order, spool())
      const { complete_to, to } = object?.manifest ?? {}
      await object?.dispose()
      return { complete_to, to }
    }
    expect(await claims(30, [10, 20])).toEqual({ complete_to: 30, to: 30 })
    expect(await claims(15, [10, 20])).toEqual({ complete_to: 15, to: 20 })
    expect(await claims(5, [10, 20])).toEqual({ complete_to: 5, to: 20 })
  })

  test('leaves a cell out whose WAL was reset after it was collected, and keeps what it has of it', async () => {
    const [reset, other] = [newCell(), newCell()]
    reset.commit()
    const logs = [unshipped(reset), unshipped(other)]
    reset.checkpoint()
    // It overwrites the beginning of the WAL that was collected.
    reset.commit()
    const { manifest, leftOut } = await made(...logs)
    expect(leftOut).toMatchObject([{ cellId: reset.cellId }])
    expect(manifest.cells.map(({ cell_id }) => cell_id)).toEqual([other.cellId])
    expect(manifest.complete).toBe(false)
    const next = await made(unshipped(reset))
    expect(next.manifest.cells[0]?.pieces.map(({ sequence }) => sequence)).toEqual([1, 2])
  })

  test('takes a piece of many blocks back whose WAL was reset: those before and after it are in their places', async () => {
    const [before, reset, after] = [newCell(), newCell(), newCell()]
    before.commit(40_000)
    reset.commit(3_500_000)
    after.commit(70_000)
    const logs = [unshipped(before), unshipped(reset), unshipped(after)]
    reset.checkpoint()
    reset.commit()
    const { manifest, tar, end, leftOut } = await made(...logs)
    expect(leftOut).toMatchObject([{ cellId: reset.cellId }])
    expect(manifest.cells.map(({ cell_id }) => cell_id)).toEqual([before.cellId, after.cellId])
    for (const { cell_id, pieces } of manifest.cells) {
      const [{ offset, size } = { offset: 0, size: 0 }] = pieces
      const source = logs.find(({ cellId }) => cellId === cell_id)?.pieces[0]?.path as string
      const stored = tar.subarray(end + offset, end + offset + size)
      expect(stored.equals(fs.readFileSync(source).subarray(0, size))).toBe(true)
    }
  })

  test('leaves out what follows a segment that has gone, and names a file that it may not read', async () => {
    const [gone, locked] = [newCell(), newCell()]
    gone.commit()
    gone.checkpoint()
    gone.commit()
    const [first, second] = unshipped(gone).pieces
    fs.rmSync(second?.path as string)
    const withDirectory = unshipped(locked)
    const pieces = withDirectory.pieces.map((piece) => ({ ...piece, path: folder }))
    const { manifest, leftOut, unreadable, places } = await made(unshipped(gone), {
      ...withDirectory,
      pieces,
    })
    expect(manifest.cells.map(({ pieces: stored }) => stored.length)).toEqual([1])
    expect(leftOut).toMatchObject([{ cellId: gone.cellId }])
    expect(places).toMatchObject([{ cellId: gone.cellId, sequence: 1, frames: first?.to }])
    expect(unreadable.map(({ cellId }) => cellId)).toEqual([locked.cellId])
  })

  test('is not made if nothing can be read', async () => {
    const cell = newCell()
    const log = unshipped(cell)
    cell.checkpoint()
    cell.commit()
    const { object, leftOut } = await makeLogObject(orderOf(log), spool())
    expect({ object, leftOut }).toEqual({
      object: undefined,
      leftOut: [{ cellId: cell.cellId, piece: log.pieces[0] }],
    })
  })

  test('holds no more than 8 MiB in memory, and leaves no file behind', async () => {
    const cell = newCell()
    for (let i = 0; i < 4; i++) cell.commit(5_000_000)
    const log = unshipped(cell)
    const source = fs.readFileSync(log.pieces[0]?.path as string)
    const { manifest, tar, end } = await made(log)
    const [{ offset, size } = { offset: 0, size: 0 }] = manifest.cells[0]?.pieces ?? []
    expect(tar.subarray(end + offset, end + offset + size).equals(source.subarray(0, size))).toBe(true)
    expect(fs.readdirSync(spool().directory)).toEqual([])
  })
})

describe('What an object has room for', () => {
  const log = (commits: number): UnshippedLog => ({
    cellId: randomUUID(),
    accountId: null,
    history: randomUUID(),
    pieces: [
      {
        sequence: 1,
        salts: '0011223344556677',
        pageSize: 4_096,
        from: 0,
        to: commits * 2,
        path: 'wal',
        commits: Array.from({ length: commits }, (_, i) => [(i + 1) * 2, i]),
      },
    ],
  })

  test('a piece with too many commits is cut at a commit, and the next object goes on there', () => {
    const logs = [log(5), log(10), log(1)]
    const select = (commitsMax: number, piecesMax = 100) =>
      selectLogs(logs, new ShippingOrder(), piecesMax, commitsMax)
    const { logs: selected, isAll } = select(8)
    expect(isAll).toBe(false)
    expect(selected.map(({ pieces }) => pieces.map(({ to, commits }) => [to, commits.length]))).toEqual([
      [[10, 5]],
      [[6, 3]],
    ])
    expect(select(16)).toEqual({ logs, isAll: true })
    expect(select(100, 2)).toEqual({ logs: logs.slice(0, 2), isAll: false })
  })
})

test('The order of the keys of log objects is that of their epochs and numbers', () => {
  const keys = [
    [1, 1],
    [1, 2],
    [1, 10],
    [2, 1],
    [10, 1],
  ].map(([epoch = 0, number = 0]) => logKey({ epoch, number }))
  expect(keys.toSorted()).toEqual(keys)
  expect(keys.map(parseLogKey).at(-1)).toEqual({ epoch: 10, number: 1 })
  for (const other of ['log/1-1', 'log/0000000001-0000000001x', 'snapshots/0000000001-0000000001'])
    expect(parseLogKey(other)).toBeUndefined()
})

function disposable<T extends { close(): unknown }>(resource: T): T & Disposable {
  return Object.assign(resource, { [Symbol.dispose]: () => void resource.close() })
}
