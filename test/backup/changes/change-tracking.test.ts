import { spawnSync } from 'node:child_process'
import { describe, expect, test, vi } from 'vitest'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { isCellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { changeOf } from '../../support/backup/changes.ts'
import { ForeignProgram } from '../../support/backup/foreign-program.ts'
import { FailingStore, GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { StoreProcess } from '../../support/backup/store-process.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

/** Makes the engine checkpoint after every write, as a busy cell does after every few megabytes. */
const EAGER = { checkpointBytes: 1 }

function keptBytes(cell: Cell): number {
  const { segments } = place.paths.cell(cell.id)
  return new Segments(segments).list().reduce((sum, { size }) => sum + size, 0)
}

/** Another program does something to a database, while this one holds its breath. */
function commitElsewhere(file: string, sql: string): void {
  const script = `
    const connection = new (require('better-sqlite3'))(${JSON.stringify(file)})
    connection.pragma('wal_autocheckpoint = 0')
    connection.exec(${JSON.stringify(sql)})
    // Not closed: its last act would be a checkpoint.
    process.kill(process.pid, 'SIGKILL')`
  spawnSync(process.execPath, ['-e', script])
}

/** A store that was closed again, with one cell and its snapshot. */
async function cellWithBackup(): Promise<string> {
  const store = await place.create()
  const cell = createLedger(store)
  await store.backups.snapshot(cell.id)
  await store.close()
  return cell.id
}

async function restoredNotes(store: CellStore, cell: Cell, version?: string): Promise<string[]> {
  await store.backups.restore(cell.id, { version: version as string })
  return notes(cell)
}

test('rows that a statement with OR FAIL leaves behind count as a change: they are committed', async () => {
  const store = await place.create()
  const cell = store.createCell()
  cell.sql('CREATE TABLE t (a PRIMARY KEY)')
  await store.backups.snapshot(cell.id)
  expect(() => cell.sql('INSERT OR FAIL INTO t VALUES (1), (2), (1)')).toThrow(/UNIQUE/)
  expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 2 }])
  expect(store.core.destination?.progress.find(cell.id).dirty).toBe(true)
})

describe('An incremental beside other programs (invariants 7 and 10)', () => {
  test('begins a new base when another program moved our log into the file between two checkpoints of ours', async () => {
    const store = await place.create({ checkpointBytes: 65_536 })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    const file = place.paths.cell(cell.id).database
    const other = await ForeignProgram.open(file)
    addRow(cell, 'only in the file')
    await other.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    // Ours again: what it notes of the file must not cover up what the other one did.
    addRow(cell, 'in the log', 100_000)
    await other.close()
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['only in the file', 'in the log'])
  })

  test('begins a new base when another program moved all of the log into the file, and ours only had to cut it off', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    await store.close()
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    await other.exec("INSERT INTO ledger (note) VALUES ('theirs'); PRAGMA wal_checkpoint(PASSIVE)")
    const again = await place.open()
    const { version, baseVersion } = await again.backups.incremental(cell.id)
    await other.close()
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(again, again.openCell(cell.id), version)).toEqual(['theirs'])
  })

  test('holds what another program wrote into our log', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version: base } = await store.backups.snapshot(cell.id)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    addRow(cell, 'ours')
    await other.exec("INSERT INTO ledger (note) VALUES ('theirs')")
    addRow(cell, 'ours again')
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    await other.close()
    expect(baseVersion).toBe(base)
    expect(await restoredNotes(store, cell, version)).toEqual(['ours', 'theirs', 'ours again'])
  })

  test('begins a new base when another program wrote the cell while it was closed', async () => {
    const store = await place.create({ openCellsMax: 1 })
    const cell = createLedger(store)
    addRow(cell, 'ours')
    await store.backups.snapshot(cell.id)
    createLedger(store)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    await other.exec("INSERT INTO ledger (note) VALUES ('theirs')")
    await other.close()
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['ours', 'theirs'])
  })

  test('loses nothing of what another program writes all the while, whenever it commits', async () => {
    const store = await place.create(EAGER)
    const cell = createLedger(store)
    cell.sql('CREATE TABLE theirs (n INTEGER PRIMARY KEY)')
    cell.sql('CREATE TABLE ours (n INTEGER PRIMARY KEY)')
    await store.backups.snapshot(cell.id)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    await other.repeat('INSERT INTO theirs DEFAULT VALUES')
    const versions: [string, number][] = []
    let ours = 0
    for (let round = 0; round < 3_000 && versions.length < 20; round++) {
      try {
        cell.sql('INSERT INTO ours DEFAULT VALUES')
        ours++
        if (round % 3 > 0) continue
        const { version } = await store.backups.incremental(cell.id)
        versions.push([version, ours])
      } catch (error) {
        // The other one had the lock.
        if (!isCellError(error, 'busy')) throw error
      }
    }
    await other.close()
    expect(versions.length).toBeGreaterThan(10)
    for (const [version, expected] of versions) {
      await store.backups.restore(cell.id, { version: version as string })
      const gaps = (table: string) => cell.sql(`SELECT count(*) AS n, max(n) AS last FROM ${table}`).rows[0]
      expect(gaps('ours')).toEqual({ n: expected, last: expected })
      const theirs = gaps('theirs')
      expect(theirs?.['last'] ?? 0).toBe(theirs?.['n'])
    }
  })

  test('loses nothing when the log grows past the part that is being uploaded', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ checkpointBytes: 40_000, objectStore: gated })
    const cell = createLedger(store)
    cell.sql('CREATE TABLE elsewhere (note)')
    const { version: base } = await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    const reader = await ForeignProgram.open(place.paths.cell(cell.id).database)
    // From here on the log can be moved into the file, but not begun anew.
    await reader.exec('BEGIN; SELECT count(*) FROM ledger')
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const first = store.backups.incremental(cell.id)
    await gated.arrival()
    cell.sql("INSERT INTO elsewhere VALUES ('two, while one is on its way')")
    await reader.close()
    // All of the log is moved into the file now; the next write begins it anew, and then 'two' is in no log.
    addRow(cell, 'large', 60_000)
    gated.open()
    expect((await first).baseVersion).toBe(base)
    addRow(cell, 'three')
    const second = await store.backups.incremental(cell.id)
    expect(second.baseVersion).toBe(base)
    expect(await restoredNotes(store, cell, second.version)).toEqual(['one', 'large', 'three'])
    expect(cell.sql('SELECT * FROM elsewhere').rows).toHaveLength(1)
    expect(await restoredNotes(store, cell, (await first).version)).toEqual(['one'])
    expect(cell.sql('SELECT * FROM elsewhere').rows).toHaveLength(0)
  })

  test('begins a new base when another program commits between the keeping of a log and its checkpoint', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'ours')
    const { keep } = Segments.prototype
    vi.spyOn(Segments.prototype, 'keep').mockImplementationOnce(function (this: Segments, ...rest) {
      const kept = keep.apply(this, rest)
      commitElsewhere(place.paths.cell(cell.id).database, "INSERT INTO ledger (note) VALUES ('theirs')")
      return kept
    })
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['ours', 'theirs'])
  })

  test('refuses with busy, not with a torn copy, when another program moved a log into the file that is read', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 20; i++) addRow(cell, `row ${i}`, 200_000)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    let interfered: Promise<void> | undefined
    const snapshot = store.backups.snapshot(cell.id, {
      onProgress: ({ phase }) => {
        if (phase !== 'read' || interfered !== undefined) return
        addRow(cell, 'meanwhile', 500_000)
        commitElsewhere(place.paths.cell(cell.id).database, 'PRAGMA wal_checkpoint(PASSIVE)')
        interfered = Promise.resolve()
      },
    })
    await expect(snapshot).rejects.toMatchObject({ code: 'busy' })
    await other.close()
    const { version } = await store.backups.snapshot(cell.id)
    expect(await restoredNotes(store, cell, version)).toHaveLength(21)
  })
})

describe('The logs that are kept', () => {
  test('stay within the size of the database while no backup takes them', async () => {
    // What is shipped has a bound of its own.
    const store = await place.create({ ...EAGER, backups: { maxLagMs: null } })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'the one row')
    // The same pages again and again: the database stays small, the logs do not.
    for (let i = 0; i < 80; i++) cell.sql('UPDATE ledger SET payload = randomblob(20000)')
    expect(keptBytes(cell)).toBeLessThanOrEqual(1_048_576)
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['the one row'])
  })
})

describe('A cell counts as changed', () => {
  test('until its backup is stored, also for a process that is killed during the upload', async () => {
    const cellId = await cellWithBackup()
    const child = await StoreProcess.open(place)
    await child.sql(cellId, "INSERT INTO ledger (note) VALUES ('one')")
    await child.order({ do: 'backup until put', cellId })
    await child.kill()
    const store = await place.open()
    expect(changeOf(store, cellId)).toMatchObject({ dirty: true })
    const { version, baseVersion } = await store.backups.incremental(cellId)
    expect(baseVersion).not.toBeNull()
    expect(await restoredNotes(store, store.openCell(cellId), version)).toEqual(['one'])
  })

  test('when the process was killed before the row that says so was written', async () => {
    const cellId = await cellWithBackup()
    const child = await StoreProcess.open(place)
    await child.order({ do: 'forget rows' })
    await child.sql(cellId, "INSERT INTO ledger (note) VALUES ('one')")
    await child.kill()
    const store = await place.open()
    expect(changeOf(store, cellId)).toBeUndefined()
    expect(notes(store.openCell(cellId))).toEqual(['one'])
    expect(changeOf(store, cellId)).toMatchObject({ dirty: true })
  })

  test('after a backup that failed', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    failing.failFromHere(1, (call, key) => call === 'put' && key.includes(cell.id))
    expect((await rejectedBy(store.backups.incremental(cell.id))).code).toBe('object_store_unavailable')
    expect(changeOf(store, cell.id)).toMatchObject({ dirty: true })
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).not.toBeNull()
    expect(changeOf(store, cell.id)).toMatchObject({ dirty: false, dirtySinceSnapshot: true })
    expect(await restoredNotes(store, cell, version)).toEqual(['one'])
  })

  test('not after a backup that holds everything', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    expect(changeOf(store, cell.id)).toMatchObject({ dirty: true, dirtySinceSnapshot: true })
    await store.backups.snapshot(cell.id)
    expect(changeOf(store, cell.id)).toBeUndefined()
    await store.close()
    const again = await place.open()
    notes(again.openCell(cell.id))
    expect(changeOf(again, cell.id)).toBeUndefined()
  })
})

describe('When what is known of backups cannot be written down', () => {
  test('commits are still answered, and the next backup is right', async () => {
    const store = await place.create(EAGER)
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    vi.spyOn(BackupProgressTable.prototype, 'save').mockImplementation(() => {
      throw Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
    })
    addRow(cell, 'one')
    await cell.commit(() => addRow(cell, 'two'))
    vi.restoreAllMocks()
    addRow(cell, 'three')
    const { version } = await store.backups.incremental(cell.id)
    expect(await restoredNotes(store, cell, version)).toEqual(['one', 'two', 'three'])
  })

  test('commits are still answered when a log cannot be kept, and the next backup is a base', async () => {
    const store = await place.create(EAGER)
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    vi.spyOn(Segments.prototype, 'keep').mockImplementation(() => {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), {
        code: 'ENOSPC',
        syscall: 'write',
      })
    })
    addRow(cell, 'one')
    vi.restoreAllMocks()
    addRow(cell, 'two')
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['one', 'two'])
  })

  test('a base that is being uploaded is still stored, and the next backup is a base again', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ ...EAGER, objectStore: gated })
    const cell = createLedger(store)
    addRow(cell, 'one')
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const first = store.backups.snapshot(cell.id)
    await gated.arrival()
    vi.spyOn(Segments.prototype, 'keep').mockImplementation(() => {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), {
        code: 'ENOSPC',
        syscall: 'write',
      })
    })
    addRow(cell, 'two')
    vi.restoreAllMocks()
    addRow(cell, 'three')
    gated.open()
    await first
    expect(keptBytes(cell)).toBe(0)
    const second = await store.backups.incremental(cell.id)
    expect(second.baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, (await first).version)).toEqual(['one'])
    expect(await restoredNotes(store, cell, second.version)).toEqual(['one', 'two', 'three'])
  })
})
