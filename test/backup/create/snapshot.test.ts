import fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { OpenDatabaseReader } from '../../../src/backup/create/database-reader.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { changedCells, changeOf } from '../../support/backup/changes.ts'
import { FailingStore, GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { seededRandom } from '../../support/seed.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'

const place = ScratchPlace.perTest()

/** A cell of some megabytes, whose rows tell whether they are all of one moment. */
function createCounter(store: CellStore, megabytes = 4): Cell {
  const cell = store.createCell()
  cell.sql('CREATE TABLE counter (value INTEGER NOT NULL)')
  cell.sql('INSERT INTO counter VALUES (0)')
  cell.sql('CREATE TABLE history (value INTEGER PRIMARY KEY, payload BLOB)')
  cell.sql('CREATE INDEX by_length ON history (length(payload))')
  for (let i = 0; i < megabytes * 8; i++) increment(cell, 128_000)
  return cell
}

function increment(cell: Cell, bytes = 300): void {
  cell.transaction(() => {
    cell.sql('UPDATE counter SET value = value + 1')
    cell.sql('INSERT INTO history SELECT value, randomblob(?) FROM counter', [bytes])
  })
}

function currentValue(cell: Cell): number {
  return cell.sql<{ value: number }>('SELECT value FROM counter').rows[0]?.value as number
}

/** The counter's value, if all that belongs to it is of the same moment. */
function consistentValue(cell: Cell): number {
  const value = currentValue(cell)
  const [row] = cell.sql(
    'SELECT count(*) AS n, max(value) AS last, min(length(payload)) > 0 AS whole FROM history',
  ).rows
  expect(row).toEqual({ n: value, last: value, whole: 1 })
  expect(cell.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
  return value
}

/** What the counter showed at each backup's cut. */
function recordCuts(cell: Cell): number[] {
  const cuts: number[] = []
  const cut = ChangeTracker.prototype.cut
  vi.spyOn(ChangeTracker.prototype, 'cut').mockImplementation(function (this: ChangeTracker, ...rest) {
    if (this.progress.cellId === cell.id) cuts.push(currentValue(cell))
    cut.apply(this, rest)
  })
  return cuts
}

/** Lets `meanwhile` run between the reads of a snapshot. */
function betweenReads(meanwhile: (read: number) => void | Promise<void>): { reads: number } {
  const seen = { reads: 0 }
  const read = OpenDatabaseReader.prototype.read
  vi.spyOn(OpenDatabaseReader.prototype, 'read').mockImplementation(async function (
    this: OpenDatabaseReader,
    ...rest
  ) {
    seen.reads++
    await meanwhile(seen.reads)
    return read.apply(this, rest)
  })
  return seen
}

describe('A snapshot holds exactly the state at its cut (invariants 7 and 10)', () => {
  test('while writers go on between its reads, one by one and in groups', async () => {
    const random = seededRandom()
    const store = await place.create({ checkpointBytes: 65_536 })
    const cell = createCounter(store)
    const cuts = recordCuts(cell)
    const before = currentValue(cell)
    const { reads } = await (async () => {
      const seen = betweenReads(async () => {
        for (let i = random.below(4); i >= 0; i--) increment(cell, 1 + random.below(20_000))
        const group = Array.from({ length: random.below(5) }, () => cell.commit(() => increment(cell)))
        await setImmediate()
        await Promise.all(group)
      })
      const { version } = await store.backups.snapshot(cell.id)
      expect(currentValue(cell)).toBeGreaterThan(before + seen.reads)
      increment(cell)
      await store.backups.restore(cell.id, { version })
      return seen
    })()
    expect(reads).toBeGreaterThan(4)
    expect(consistentValue(cell)).toBe(cuts[0])
  })

  test('and the incrementals after it hold exactly theirs, whatever was written during the upload', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated, checkpointBytes: 65_536 })
    const cell = createCounter(store)
    const cuts = recordCuts(cell)
    const versions: string[] = []
    for (let i = 0; i < 4; i++) {
      gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
      const backup = store.backups.incremental(cell.id)
      await gated.arrival()
      for (let n = 0; n < 10; n++) increment(cell, 20_000)
      gated.open()
      versions.push((await backup).version)
      increment(cell)
    }
    for (const [i, version] of versions.entries()) {
      await store.backups.restore(cell.id, { version })
      expect(consistentValue(cell)).toBe(cuts[i])
    }
  })

  test('and its writers are never held up: each write is done before the next read', async () => {
    const store = await place.create()
    const cell = createCounter(store)
    let written = 0
    const seen = betweenReads(async () => {
      const before = currentValue(cell)
      increment(cell)
      await cell.commit(() => increment(cell))
      expect(currentValue(cell)).toBe(before + 2)
      written++
    })
    await store.backups.snapshot(cell.id)
    expect(written).toBe(seen.reads)
  })
})

test('A cell gets its snapshot although more is written meanwhile than its log may hold (invariant 7)', async () => {
  const walBytesMax = 1_000_000
  const store = await place.create({ limits: { walBytesMax }, checkpointBytes: 65_536 })
  const cell = createCounter(store)
  const cuts = recordCuts(cell)
  let longest = 0
  betweenReads(() => {
    for (let i = 0; i < 2; i++) increment(cell, 400_000)
    longest = Math.max(longest, fs.statSync(place.paths.cell(cell.id).wal).size)
  })
  const { version } = await store.backups.snapshot(cell.id)
  expect(longest).toBeLessThan(walBytesMax)
  increment(cell)
  await store.backups.restore(cell.id, { version })
  expect(consistentValue(cell)).toBe(cuts[0])
  expect(cuts[0]).toBeGreaterThan(32 + walBytesMax / 400_000)
})

describe('A snapshot is given up', () => {
  test('with busy, once much more was written than the cell is large; the next one is whole', async () => {
    const store = await place.create({ checkpointBytes: 65_536, durability: 'relaxed' })
    const cell = createCounter(store)
    const { version: before } = await store.backups.snapshot(cell.id)
    const uploaded = filesBelow(place.objects)
    // The same pages again and again: the cell stays small, the logs do not.
    betweenReads((read) => {
      for (let i = 0; read === 1 && i < 40; i++) cell.sql('UPDATE history SET payload = randomblob(60000)')
    })
    const error = await rejectedBy(store.backups.snapshot(cell.id))
    expect(error).toMatchObject({ code: 'busy', message: expect.stringContaining('more was written') })
    expect(filesBelow(place.objects)).toEqual(uploaded)
    expect(new Segments(place.paths.cell(cell.id).segments).list()).toEqual([])
    vi.restoreAllMocks()
    const cuts = recordCuts(cell)
    increment(cell)
    const { version } = await store.backups.incremental(cell.id)
    increment(cell)
    await store.backups.restore(cell.id, { version })
    expect(consistentValue(cell)).toBe(cuts[0])
    await store.backups.restore(cell.id, { version: before })
    expect(consistentValue(cell)).toBe(32)
  })

  test('with cell_not_found, when the cell is deleted while it is read', async () => {
    const store = await place.create()
    const cell = createCounter(store)
    const other = createCounter(store)
    betweenReads((read) => {
      if (read !== 3) return
      store.deleteCell(cell.id)
      // Takes descriptors' numbers that have become free.
      for (let i = 0; i < 20; i++) createLedger(store)
    })
    const error = await rejectedBy(store.backups.snapshot(cell.id))
    expect(error.code).toBe('cell_not_found')
    expect(filesBelow(place.objects).filter((file) => file.includes(cell.id))).toEqual([])
    expect(consistentValue(other)).toBe(32)
  })

  test('with the signal’s reason, when its caller cancels it; nothing is stored, and the cell counts as changed', async () => {
    const store = await place.create()
    const cell = createCounter(store)
    const abort = new AbortController()
    betweenReads((read) => {
      if (read === 3) abort.abort()
    })
    const error = await store.backups
      .snapshot(cell.id, { signal: abort.signal })
      .catch((error: unknown) => error)
    expect(error).toBe(abort.signal.reason)
    expect(filesBelow(place.objects).filter((file) => file.includes(cell.id))).toEqual([])
    expect(changeOf(store, cell.id)).toMatchObject({ dirty: true })
  })

  test('with its caller’s own error, where it cancels with a CellError', async () => {
    const store = await place.create()
    const cell = createCounter(store, 1)
    const reason = new CellError('shutting_down', 'not now')
    await expect(store.backups.snapshot(cell.id, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  test('with store_closed, when the store closes and its deadline is over', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const cell = createCounter(store, 1)
    await store.core.catalogStored()
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const snapshot = rejectedBy(store.backups.snapshot(cell.id))
    await gated.arrival()
    const closing = store.close({ deadlineMs: 5_000 })
    for (let turn = 0; turn < 10; turn++) await setImmediate()
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('store_closed')
    place.clock.advance(5_000)
    gated.open()
    expect((await snapshot).code).toBe('store_closed')
    await closing
  })
})

describe('While a snapshot is under way', () => {
  test('the pool does not close the cell under its reads', async () => {
    const store = await place.create({ openCellsMax: 1 })
    const cell = createCounter(store)
    const other = createLedger(store)
    const cuts = recordCuts(cell)
    betweenReads(() => addRow(other, 'wants the one place'))
    const { version } = await store.backups.snapshot(cell.id)
    vi.restoreAllMocks()
    await store.backups.restore(cell.id, { version })
    expect(consistentValue(cell)).toBe(cuts[0])
  })

  test('a slow upload pins nothing: the pool closes the cell, it is opened and written again, and nothing is lost', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated, openCellsMax: 1 })
    const cell = createCounter(store, 1)
    const other = createLedger(store)
    const cuts = recordCuts(cell)
    const versions: string[] = []
    for (let i = 0; i < 3; i++) {
      gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
      const backup = store.backups.incremental(cell.id)
      await gated.arrival()
      for (let n = 0; n < 3; n++) {
        increment(cell)
        addRow(other, 'takes the one place')
        expect(fs.existsSync(place.paths.cell(cell.id).wal)).toBe(false)
      }
      gated.open()
      const { version, baseVersion } = await backup
      expect(baseVersion).toBe(i === 0 ? null : versions[0])
      versions.push(version)
    }
    vi.restoreAllMocks()
    for (const [i, version] of versions.entries()) {
      await store.backups.restore(cell.id, { version })
      expect(consistentValue(cell)).toBe(cuts[i])
    }
  })

  test('a cell that is deleted during the upload is still stored, and can be brought back', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const cell = createCounter(store, 1)
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const backup = store.backups.snapshot(cell.id)
    await gated.arrival()
    store.deleteCell(cell.id)
    gated.open()
    await backup
    expect(changedCells(store).all()).toEqual([])
    await store.backups.restore(cell.id)
    expect(consistentValue(store.openCell(cell.id))).toBe(8)
  })

  test('backups of one cell wait for each other, and those of other cells do not', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const [one, two] = [createLedger(store), createLedger(store)]
    gated.gates = (call, key) => call === 'put' && key.includes(one.id)
    const slow = [store.backups.snapshot(one.id), store.backups.incremental(one.id)]
    await gated.arrival()
    await store.backups.snapshot(two.id)
    expect(gated.waiting).toBe(1)
    gated.open()
    const [first, second] = await Promise.all(slow)
    expect(second?.baseVersion).toBe(first?.version)
  })
})

describe('The spool', () => {
  const spooled = () => filesBelow(place.data).filter((file) => file.startsWith('spool'))

  test('holds a large object while it is uploaded, and is empty after success and after failure', async () => {
    const failing = new FailingStore(place.folder())
    const gated = new GatedStore(failing)
    const store = await place.create({ objectStore: gated })
    const cell = createCounter(store)
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const backup = store.backups.snapshot(cell.id)
    await gated.arrival()
    expect(spooled()).toHaveLength(1)
    gated.open()
    await backup
    expect(spooled()).toEqual([])
    failing.failFromHere(1, (call, key) => call === 'put' && key.includes(cell.id))
    await rejectedBy(store.backups.snapshot(cell.id))
    expect(spooled()).toEqual([])
  })

  test('is emptied at every start', async () => {
    const store = await place.create()
    await store.close()
    fs.mkdirSync(place.paths.spool, { recursive: true })
    fs.writeFileSync(`${place.paths.spool}/left-over.tar.zst`, 'of a process that was killed')
    await place.open()
    expect(spooled()).toEqual([])
  })

  test('and its archive hold little in memory, whatever the size of the cell', async () => {
    const store = await place.create({ durability: 'relaxed' })
    const cell = createCounter(store, 80)
    global.gc?.()
    const before = process.memoryUsage().rss
    let peak = before
    const watch = () => {
      peak = Math.max(peak, process.memoryUsage().rss)
    }
    const { version, sizeBytes } = await store.backups.snapshot(cell.id, { onProgress: watch })
    expect(sizeBytes).toBeGreaterThan(64 * 1_048_576)
    const mib = (bytes: number) => Math.round(bytes / 1_048_576)
    console.info(`snapshot of ${mib(sizeBytes)} MiB: RSS grew by ${mib(peak - before)} MiB`)
    peak = before
    await store.backups.restore(cell.id, { version, onProgress: watch })
    console.info(`restore of ${mib(sizeBytes)} MiB: RSS grew by ${mib(peak - before)} MiB`)
    expect(consistentValue(cell)).toBe(640)
    await turnsUntil(() => spooled().length === 0, 'the spool is empty')
  })
})
