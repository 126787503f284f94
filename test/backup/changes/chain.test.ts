import { describe, expect, test } from 'vitest'
import { isOutgrown } from '../../../src/backup/changes/backup-chain.ts'
import type { BackupResult } from '../../../src/backup/versions/backup-types.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { StoreProcess } from '../../support/backup/store-process.ts'

const MIB = 1_048_576

const place = ScratchPlace.perTest()

/** A cell of some megabytes, with a base. */
async function largeCell(store: CellStore, megabytes = 8): Promise<{ cell: Cell; base: BackupResult }> {
  const cell = createLedger(store)
  cell.transaction(() => {
    for (let i = 0; i < megabytes; i++) addRow(cell, `part ${i}`, MIB)
  })
  return { cell, base: await store.backups.snapshot(cell.id) }
}

describe('An incremental costs what changed, not what there is', () => {
  test('in an open cell', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const { cell, base } = await largeCell(store)
    expect(base.sizeBytes).toBeGreaterThan(8 * MIB)
    for (let i = 0; i < 5; i++) {
      addRow(cell, 'a row', 1_000)
      const { version, sizeBytes, baseVersion } = await store.backups.incremental(cell.id)
      expect(baseVersion).toBe(base.version)
      expect(sizeBytes).toBeLessThan(20_000)
      expect(recording.putBytes.get(version)).toBe(sizeBytes)
    }
    addRow(cell, 'a megabyte', MIB)
    const { sizeBytes } = await store.backups.incremental(cell.id)
    expect(sizeBytes).toBeGreaterThan(MIB)
    expect(sizeBytes).toBeLessThan(1.1 * MIB)
  })

  test('also after the pool has closed the cell, again and again', async () => {
    const store = await place.create({ openCellsMax: 1 })
    const other = store.createCell()
    const { cell, base } = await largeCell(store)
    for (let i = 0; i < 5; i++) {
      for (let close = 0; close < 3; close++) {
        addRow(cell, 'a row', 1_000)
        other.sql('PRAGMA user_version')
      }
      const { sizeBytes, baseVersion } = await store.backups.incremental(cell.id)
      expect(baseVersion).toBe(base.version)
      expect(sizeBytes).toBeLessThan(30_000)
    }
  })

  test('also after a restart of the store', async () => {
    let store = await place.create()
    const { cell, base } = await largeCell(store)
    for (let i = 0; i < 3; i++) {
      addRow(store.openCell(cell.id), 'before the restart', 1_000)
      await store.close()
      store = await place.open()
      addRow(store.openCell(cell.id), 'after the restart', 1_000)
      const { sizeBytes, baseVersion } = await store.backups.incremental(cell.id)
      expect(baseVersion).toBe(base.version)
      expect(sizeBytes).toBeLessThan(30_000)
    }
    await store.backups.restore(cell.id)
    expect(notes(store.openCell(cell.id))).toHaveLength(8 + 6)
  })

  test('also after a kill', async () => {
    const store = await place.create()
    const { cell, base } = await largeCell(store)
    await store.close()
    const child = await StoreProcess.open(place)
    await child.sql(cell.id, "INSERT INTO ledger (note) VALUES ('before the kill')")
    await child.kill()
    const again = await place.open()
    const { sizeBytes, baseVersion } = await again.backups.incremental(cell.id)
    expect(baseVersion).toBe(base.version)
    expect(sizeBytes).toBeLessThan(20_000)
    await again.backups.restore(cell.id)
    expect(notes(again.openCell(cell.id)).at(-1)).toBe('before the kill')
  })

  test('and next to nothing if nothing changed', async () => {
    const store = await place.create()
    const { cell } = await largeCell(store, 2)
    const { sizeBytes } = await store.backups.incremental(cell.id)
    expect(sizeBytes).toBeLessThan(2_000)
    await store.backups.restore(cell.id)
    expect(notes(cell)).toHaveLength(2)
  })
})

describe('A chain ends, and the next incremental is a base of its own (baseVersion null),', () => {
  test('after 64 versions', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const bases: number[] = []
    for (let i = 0; i < 130; i++) {
      addRow(cell, `row ${i}`, 1)
      if ((await store.backups.incremental(cell.id)).baseVersion === null) bases.push(i)
    }
    expect(bases).toEqual([0, 64, 128])
    await store.backups.restore(cell.id)
    expect(notes(cell)).toHaveLength(130)
  })

  test('once its logs are larger than the database', async () => {
    const store = await place.create()
    const { cell } = await largeCell(store, 3)
    const sizes: (string | null)[] = []
    for (let i = 0; i < 8; i++) {
      // The same megabyte again: the database stays as large as it is.
      cell.sql("UPDATE ledger SET payload = randomblob(1048576) WHERE note = 'part 0'")
      sizes.push((await store.backups.incremental(cell.id)).baseVersion)
    }
    const bases = sizes.filter((base) => base === null)
    expect(bases.length).toBeGreaterThan(0)
    expect(bases.length).toBeLessThan(4)
  })

  test('once it has more logs than a manifest should name', async () => {
    const store = await place.create({ durability: 'relaxed', checkpointBytes: 1 })
    const { cell, base } = await largeCell(store, 8)
    for (let i = 0; i < 100; i++) cell.sql('PRAGMA user_version = 1', [], { policy: 'tenant' })
    expect((await store.backups.incremental(cell.id)).baseVersion).toBe(base.version)
    for (let i = 0; i < 1_001; i++) cell.sql('PRAGMA user_version = 1', [], { policy: 'tenant' })
    expect((await store.backups.incremental(cell.id)).baseVersion).toBeNull()
    await store.backups.restore(cell.id)
    expect(notes(cell)).toHaveLength(8)
  })

  test('but not once it has as many as that', () => {
    const logs = (count: number) => Array.from({ length: count }, () => ({ size: 1 }))
    expect([logs(1_000), logs(1_001)].map((each) => isOutgrown(each, 0, 8 * MIB))).toEqual([false, true])
  })

  test('and a snapshot never rests on anything', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 3; i++) expect((await store.backups.snapshot(cell.id)).baseVersion).toBeNull()
    const { version } = await store.backups.snapshot(cell.id)
    addRow(cell, 'since')
    expect((await store.backups.incremental(cell.id)).baseVersion).toBe(version)
  })
})
