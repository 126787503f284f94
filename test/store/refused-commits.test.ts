import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test, vi } from 'vitest'
import { LogFile } from '../../src/commit-log/log-file.ts'
import type { CellError } from '../../src/errors.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { untilServed } from '../support/faults/until-served.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { turnsUntil } from '../support/turns.ts'
import { until } from '../support/until.ts'
import { endOfCommits } from '../support/wal-commits.ts'

const failure = (syscall: string) =>
  Object.assign(new Error(`EIO: i/o error, ${syscall}`), { code: 'EIO', syscall })

/** The disk takes no batch of the commit log, and fails the fsync of a cell's WAL. */
function failUnder(wal: string): void {
  vi.spyOn(LogFile.prototype, 'append').mockImplementation(() => {
    throw failure('fdatasync')
  })
  const { fsync } = fs
  vi.spyOn(fs, 'fsync').mockImplementation(((fd: number, done: (error: Error | null) => void) => {
    if (fs.readlinkSync(`/proc/self/fd/${fd}`) === wal) done(failure('fsync'))
    else fsync(fd, done)
  }) as typeof fs.fsync)
}

/** The disk fails one checkpoint of a cell. */
function failOneCheckpoint(): { hasFailed: boolean } {
  const state = { hasFailed: false }
  const { pragma } = Database.prototype
  vi.spyOn(Database.prototype, 'pragma').mockImplementation(function (
    this: Database.Database,
    source,
    options,
  ) {
    if (!state.hasFailed && source.includes('wal_checkpoint(PASSIVE)')) {
      state.hasFailed = true
      throw new Database.SqliteError('disk I/O error', 'SQLITE_IOERR_FSYNC')
    }
    return pragma.call(this, source, options)
  })
  return state
}

/** As a power loss leaves the machine: of the WAL there is what its last fsync has stored. */
function powerLoss(directory: string, id: string, bytes: number): StoreDirectory {
  const lost = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
  lost.mayHaveLogs = true
  fs.cpSync(directory, lost.path, { recursive: true })
  fs.truncateSync(lost.paths.cell(id).wal, bytes)
  return lost
}

/** Why the cell does not serve. */
function reasonOf(cell: Cell): string | undefined {
  try {
    cell.kv.get('k')
    return undefined
  } catch (error) {
    return (error as CellError).details.reason
  }
}

test.each([
  ['the first one of its log', []],
  ['after one that was stored together with others', ['together']],
  ['after one that was stored alone', ['together', 'alone']],
])(
  'A change that is refused by a failed fsync, %s: a power loss takes it, and the cell is proven whole by what was acknowledged (invariants 1, 10)',
  async (_what, before) => {
    const { store, directory, clock } = await openTestStore()
    const [a, b] = [store.createCell(), store.createCell()]
    const both = (key: string) =>
      Promise.allSettled([a, b].map((cell) => cell.commit(() => cell.kv.put(key, 'v'))))
    const { wal, quarantine } = store.core.paths.cell(a.id)
    if (before.includes('together')) await both('together')
    if (before.includes('alone')) a.kv.put('alone', 'v')
    const bytes = before.length === 0 ? 0 : endOfCommits(wal)
    failUnder(wal)
    const [ofA, ofB] = await both('refused')
    expect([ofA?.status, ofB?.status]).toEqual(['rejected', 'fulfilled'])
    await turnsUntil(
      () => JSON.parse(fs.readFileSync(quarantine, 'utf8')).frames !== undefined,
      'a is closed',
    )
    vi.restoreAllMocks()
    const again = await powerLoss(directory, a.id, bytes).open()
    const cell = again.openCell(a.id)
    await until(() => reasonOf(cell) !== 'io_error', 'it is checked')
    expect(reasonOf(cell)).toBeUndefined()
    expect([...cell.kv.list().entries.map(({ key }) => key)]).toEqual([...before].sort())
    clock.advance(2_000)
    await untilServed(a)
  },
)

test('A checkpoint that fails right after a commit that others share an fsync with refuses no change that stays', async () => {
  const { store, clock } = await openTestStore({ checkpointBytes: 65_536 })
  const cells = [store.createCell(), store.createCell()]
  const disk = failOneCheckpoint()
  const outcomes = new Map<string, boolean>()
  const write = async (cell: Cell, key: string) => {
    const outcome = await cell
      .commit(() => cell.kv.put(key, 'v'.repeat(2_000)))
      .then(
        () => true,
        () => false,
      )
    outcomes.set(`${cell.id} ${key}`, outcome)
  }
  for (let i = 0; !disk.hasFailed; i++) await Promise.all(cells.map((cell) => write(cell, `k${i}`)))
  vi.restoreAllMocks()
  clock.advance(2_000)
  for (const cell of cells) await untilServed(cell)
  for (const [place, isAcknowledged] of outcomes) {
    const [id = '', key = ''] = place.split(' ')
    expect([place, store.openCell(id).kv.get(key) !== undefined]).toEqual([place, isAcknowledged])
  }
})

test.each([
  ['another run of the machine', 'another', undefined],
  ['the same run of the machine', undefined, 'damaged'],
])(
  'A relaxed cell whose disk fails may have lost its newest changes by a power loss, and by nothing else: in %s (invariants 1, 10)',
  async (_what, boot, reason) => {
    const { store, clock, directory } = await openTestStore({
      durability: 'relaxed',
      checkpointBytes: 65_536,
    })
    const cell = store.createCell()
    const { wal, quarantine } = store.core.paths.cell(cell.id)
    cell.kv.put('first', 'v')
    const bytes = endOfCommits(wal)
    const disk = failOneCheckpoint()
    for (let i = 0; !disk.hasFailed; i++) cell.kv.put(`k${i}`, 'v'.repeat(2_000))
    await turnsUntil(
      () => JSON.parse(fs.readFileSync(quarantine, 'utf8')).frames !== undefined,
      'the cell is closed',
    )
    vi.restoreAllMocks()
    const lost = powerLoss(directory, cell.id, bytes)
    const left = lost.paths.cell(cell.id).quarantine
    if (boot !== undefined)
      fs.writeFileSync(left, JSON.stringify({ ...JSON.parse(fs.readFileSync(left, 'utf8')), boot }))
    const again = (await lost.open({ durability: 'relaxed' })).openCell(cell.id)
    await until(() => reasonOf(again) !== 'io_error', 'it is checked')
    expect(reasonOf(again)).toBe(reason)
    if (reason === undefined) expect(again.kv.list().entries.map(({ key }) => key)).toEqual(['first'])
    clock.advance(2_000)
    await untilServed(cell)
  },
)
