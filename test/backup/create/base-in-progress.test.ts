import fs from 'node:fs'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test } from 'vitest'
import type { BaseCut, BaseStart } from '../../../src/backup/changes/log/cell-cuts.ts'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { BaseCopy } from '../../../src/backup/create/base-copy.ts'
import { FileDatabaseReader } from '../../../src/backup/create/database-reader.ts'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { StoreProcess } from '../../support/backup/store-process.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const MIB = 1_048_576
const SETTINGS = { checkpointBytes: 40_000 }

const place = ScratchPlace.perTest()
let cellId: string
beforeEach(async () => {
  const store = await place.create()
  const cell = createLedger(store)
  cellId = cell.id
  for (let i = 0; i < 3; i++) addRow(cell, `part ${i}`, MIB)
  await store.close()
})

const change = "UPDATE ledger SET payload = randomblob(150000) WHERE note = 'part 1'"
const add = (note: string) => `INSERT INTO ledger (note, payload) VALUES ('${note}', randomblob(30000))`

/** Copies the database from outside, and lets something happen after its first megabyte. */
async function copyFrom(start: BaseStart, meanwhile: () => Promise<void>): Promise<BaseCopy> {
  const copy = new BaseCopy(tempDirectory())
  const file = await FileDatabaseReader.open(start.databasePath)
  let isOver = false
  await copy.read(
    {
      read: async (bytes, offset) => {
        if (offset > 0 && !isOver) {
          isOver = true
          await meanwhile()
        }
        return await file.read(bytes, offset)
      },
      close: () => file.close(),
    },
    start.size,
  )
  await file.close()
  expect(isOver).toBe(true)
  return copy
}

function notesIn(copy: BaseCopy): unknown[] {
  const connection = new Database(copy.path)
  try {
    expect(connection.pragma('integrity_check', { simple: true })).toBe('ok')
    return connection.prepare('SELECT note FROM ledger ORDER BY n').pluck().all()
  } finally {
    connection.close()
  }
}

describe('A base under way, copied by another process,', () => {
  test('survives the kill of the process that has the cell open, and becomes the chain’s base', async () => {
    let child = await StoreProcess.open(place, SETTINGS)
    await child.sql(cellId, add('before'))
    const start = (await child.order({ do: 'begin base', cellId })) as BaseStart
    const copy = await copyFrom(start, async () => {
      for (const sql of [change, add('one'), change]) await child.sql(cellId, sql)
      await child.kill()
      child = await StoreProcess.open(place, SETTINGS)
      for (const sql of [add('two'), change]) await child.sql(cellId, sql)
    })
    await child.sql(cellId, add('three'))
    const version = versionOf(cellId, place.clock.now())
    const cut = (await child.order({ do: 'end base', cellId, id: start.id, version })) as BaseCut
    await child.sql(cellId, add('after the cut'))
    await child.kill()
    await copy.redo(cut.segments)
    const parts = ['part 0', 'part 1', 'part 2']
    expect(notesIn(copy)).toEqual([...parts, 'before', 'one', 'two', 'three'])
    await copy.dispose()
    child = await StoreProcess.open(place, SETTINGS)
    await child.order({ do: 'base stored', cellId, backup: { version, kind: 'snapshot', cut } })
    await child.close()
    const { segments } = place.paths.cell(cellId)
    const kept = new Segments(segments).list().map(({ sequence }) => sequence)
    const local = new Database(place.paths.localState)
    const row = local.prepare('SELECT chain, base FROM backup_progress WHERE cell_id = ?').get(cellId)
    local.close()
    expect(row).toMatchObject({ base: null, chain: expect.stringContaining(version) })
    expect(Math.min(...kept)).toBeGreaterThan(cut.segments.at(-1)?.sequence as number)
  })

  test('is refused after the kill if another program wrote the cell meanwhile, and can begin again', async () => {
    let child = await StoreProcess.open(place, SETTINGS)
    const start = (await child.order({ do: 'begin base', cellId })) as BaseStart
    await child.kill()
    const other = new Database(place.paths.cell(cellId).database)
    other.exec(add('theirs'))
    other.close()
    child = await StoreProcess.open(place, SETTINGS)
    const version = versionOf(cellId, place.clock.now())
    const end = (id: string) => child.order({ do: 'end base', cellId, id, version })
    await expect(end(start.id)).rejects.toThrow('busy Another program wrote to the cell during its backup')
    await expect(end('another')).rejects.toThrow('busy The backup was given up meanwhile')
    const again = (await child.order({ do: 'begin base', cellId })) as BaseStart
    expect(await end(again.id)).toMatchObject({ kind: 'base', segments: [] })
    await child.close()
  })

  test('that nobody ends costs the next backup nothing', async () => {
    const child = await StoreProcess.open(place, SETTINGS)
    await child.order({ do: 'begin base', cellId })
    await child.sql(cellId, add('one'))
    await child.kill()
    const store = await place.open()
    const cell = store.openCell(cellId)
    const { version } = await store.backups.snapshot(cellId)
    addRow(cell, 'two')
    const { baseVersion } = await store.backups.incremental(cellId)
    expect(baseVersion).toBe(version)
    await store.backups.restore(cellId)
    expect(notes(cell).slice(3)).toEqual(['one', 'two'])
  })
})

test('A local state from before bases were kept there is opened, with its chain', async () => {
  let store = await place.open()
  const { version } = await store.backups.snapshot(cellId)
  await store.close()
  const local = new Database(place.paths.localState)
  local.exec('ALTER TABLE backup_progress DROP COLUMN base')
  local.close()
  store = await place.open()
  addRow(store.openCell(cellId), 'since')
  expect((await store.backups.incremental(cellId)).baseVersion).toBe(version)
})

describe('A snapshot of a damaged database', () => {
  test('is refused, stores nothing and keeps the earlier versions; the cell can be restored from them', async () => {
    let store = await place.open()
    const { version } = await store.backups.snapshot(cellId)
    await store.close()
    const file = place.paths.cell(cellId).database
    // A table's page that no statement below reads.
    const connection = new Database(file)
    connection.exec('CREATE TABLE unused (x); INSERT INTO unused VALUES (zeroblob(3000))')
    const page = connection.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'unused'").pluck().get()
    connection.close()
    overwritePage(file, page as number)
    store = await place.open()
    const cell = store.openCell(cellId)
    for (const kind of ['snapshot', 'incremental'] as const) {
      await expect(store.backups[kind](cellId)).rejects.toMatchObject({
        code: 'backup_corrupt',
        message: expect.stringContaining('Nothing was stored'),
        details: { member: 'cell.db' },
      })
    }
    expect(notes(cell)).toHaveLength(3)
    const { backups } = await store.backups.list(cellId)
    expect(backups.map((each) => each.version)).toEqual([version])
    await store.backups.restore(cellId, { version })
    await store.backups.snapshot(cellId)
  })
})

function overwritePage(file: string, page: number): void {
  const fd = fs.openSync(file, 'r+')
  fs.writeSync(fd, Buffer.alloc(4_096, 0xa5), 0, 4_096, (page - 1) * 4_096)
  fs.closeSync(fd)
}
