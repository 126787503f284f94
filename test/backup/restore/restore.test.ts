import fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import { definedOnly } from '../../../src/base/options/option-shapes.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { changeOf } from '../../support/backup/changes.ts'
import { FailingStore, GatedStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const STRANGER = '5d2c0f11-1c1b-4c7e-8a44-3b5a1f6e7d22'

const place = ScratchPlace.perTest()

/** A cell with a base and two incrementals, and a row that is in none of them. */
async function createChain(store: CellStore, options: { accountId?: string } = {}) {
  const cell = createLedger(store, options)
  const versions: string[] = []
  for (const note of ['one', 'two', 'three']) {
    addRow(cell, note, 50_000)
    versions.push((await store.backups.incremental(cell.id)).version)
  }
  addRow(cell, 'not backed up')
  return { cell, versions: versions as [string, string, string] }
}

const LIVE = ['one', 'two', 'three', 'not backed up']

function leftOvers(cell: Cell): string[] {
  return filesBelow(place.paths.cell(cell.id).directory).filter((file) => /incoming|intent/.test(file))
}

describe('A restore', () => {
  test('brings back any version, and the newest without one', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    for (const [i, version] of versions.entries()) {
      const result = await store.backups.restore(cell.id, { version })
      expect(result).toMatchObject({ version, kind: 'incremental' })
      expect(result.sizeBytes).toBe(fs.statSync(place.paths.cell(cell.id).database).size)
      expect(notes(cell)).toEqual(LIVE.slice(0, i + 1))
    }
    addRow(cell, 'gone with the restore')
    expect(await store.backups.restore(cell.id)).toMatchObject({ version: versions[2] })
    expect(notes(cell)).toEqual(['one', 'two', 'three'])
    expect(leftOvers(cell)).toEqual([])
  })

  test('serves the old data until the switch, and replaces what is written meanwhile, also what is queued', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'get' && key === versions[1]
    const restore = store.backups.restore(cell.id, { version: versions[1] })
    await gated.arrival()
    expect(notes(cell)).toEqual(LIVE)
    addRow(cell, 'while it is built')
    const queued = cell.commit(() => addRow(cell, 'queued'))
    expect(notes(cell)).toContain('while it is built')
    gated.open()
    await restore
    await queued
    expect(notes(cell)).toEqual(['one', 'two'])
    addRow(cell, 'after')
    expect(notes(cell)).toEqual(['one', 'two', 'after'])
  })

  test('is durable: a start after it finds the restored cell, and the next backup is a base', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    await store.backups.restore(cell.id, { version: versions[0] })
    await store.close()
    const again = await place.open()
    expect(notes(again.openCell(cell.id))).toEqual(['one'])
    // It was set back: the newest version is not what it holds.
    expect(changeOf(again, cell.id)).toMatchObject({ dirty: true, dirtySinceSnapshot: true })
    const { baseVersion } = await again.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    await again.backups.restore(cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['one'])
  })

  test('to the newest version leaves nothing to back up, until something is written', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    await store.backups.restore(cell.id)
    notes(cell)
    expect(changeOf(store, cell.id)).toBeUndefined()
    addRow(cell, 'new history')
    expect(changeOf(store, cell.id)).toMatchObject({ dirty: true })
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one', 'two', 'three', 'new history'])
  })

  test('reports its progress in stored bytes', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    const events: { bytes: number; total: number }[] = []
    await store.backups.restore(cell.id, { onProgress: (event) => events.push(event) })
    const total = filesBelow(place.objects)
      .filter((file) => file.includes(cell.id))
      .reduce((sum, file) => sum + fs.statSync(`${place.objects}/${file}`).size, 0)
    expect(events.at(-1)).toEqual({ phase: 'download', bytes: total, total })
  })

  test('of a cell whose CHECK answers otherwise on each connection is no damage', async () => {
    place.directory.isDamaged = true
    const store = await place.create()
    const cell = store.createCell()
    cell.sql('CREATE TABLE odd (n CHECK (total_changes() > 0 AND changes() >= 0))')
    cell.sql('CREATE TABLE first (n)')
    cell.sql('INSERT INTO first VALUES (1)')
    cell.sql('INSERT INTO odd VALUES (1)')
    const { version } = await store.backups.snapshot(cell.id)
    await store.backups.restore(cell.id, { version })
    expect(cell.sql('SELECT n FROM odd').rows).toEqual([{ n: 1 }])
  })

  test('brings back full-text indexes, views, triggers, expired entries, and the tenant’s user_version', async () => {
    const store = await place.create()
    const cell = store.createCell()
    cell.sql('CREATE VIRTUAL TABLE texts USING fts5(body)')
    cell.sql("INSERT INTO texts VALUES ('the quick brown fox')")
    cell.sql('CREATE TABLE log (n)')
    cell.sql('CREATE TRIGGER noted AFTER INSERT ON log BEGIN UPDATE log SET n = n + 1; END')
    cell.sql('CREATE VIEW seen AS SELECT n FROM log')
    cell.sql('INSERT INTO log VALUES (1)')
    cell.sql('PRAGMA user_version = 77', [], { policy: 'tenant' })
    cell.kv.put('k', 'v', { ttlSeconds: 1 })
    const { version } = await store.backups.snapshot(cell.id)
    cell.sql('DROP TABLE texts')
    await store.backups.restore(cell.id, { version })
    expect(cell.sql("SELECT body FROM texts WHERE texts MATCH 'fox'").rows).toHaveLength(1)
    expect(cell.sql('SELECT n FROM seen').rows).toEqual([{ n: 2 }])
    expect(cell.sql('PRAGMA user_version').rows).toEqual([{ user_version: 77 }])
    expect(cell.kv.get('k')).toBe('v')
    place.clock.advance(1_000)
    expect(cell.kv.get('k')).toBeUndefined()
  })
})

describe('A restore works', () => {
  test('with no local data at all, whatever lies where it was', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    await store.close()
    const paths = place.paths.cell(cell.id)
    fs.rmSync(paths.database)
    fs.writeFileSync(paths.wal, 'stale')
    fs.writeFileSync(paths.sharedMemory, 'stale')
    fs.writeFileSync(`${paths.database}-journal`, 'stale')
    const again = await place.open()
    await again.backups.restore(cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['one', 'two', 'three'])
  })

  test('for a deleted cell, which is there again', async () => {
    const store = await place.create()
    const { cell, versions } = await createChain(store)
    store.deleteCell(cell.id)
    expect(codeOf(() => notes(cell))).toBe('cell_not_found')
    expect((await store.backups.list(cell.id)).backups).toHaveLength(3)
    await store.backups.restore(cell.id, { version: versions[1] })
    expect(notes(cell)).toEqual(['one', 'two'])
    expect(store.cells().cells.map(({ id }) => id)).toEqual([cell.id])
    expect((await store.backups.incremental(cell.id)).baseVersion).toBeNull()
  })

  test('for a cell whose file is damaged, and which serves nothing any more', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    await store.close()
    const { database } = place.paths.cell(cell.id)
    const bytes = fs.readFileSync(database)
    fs.writeFileSync(
      database,
      Buffer.concat([bytes.subarray(0, 4_096), Buffer.alloc(bytes.length - 4_096, 0xff)]),
    )
    const again = await place.open()
    const damaged = again.openCell(cell.id)
    expect(codeOf(() => notes(damaged))).toBe('cell_quarantined')
    await again.backups.restore(cell.id)
    expect(notes(damaged)).toEqual(['one', 'two', 'three'])
  })

  test('for a cell that the catalog does not know: the manifest says whose it is', async () => {
    const store = await place.create()
    const { id: accountId } = store.accounts.create()
    const { cell } = await createChain(store, { accountId })
    await store.close()
    place.forgetCell(cell.id)
    const again = await place.open()
    expect(again.findCell(cell.id)).toBeUndefined()
    for (const other of [again.accounts.create().id, STRANGER]) {
      expect((await rejectedBy(again.backups.restore(cell.id, { accountId: other }))).code).toBe(
        'cell_not_found',
      )
      expect((await rejectedBy(again.backups.list(cell.id, { accountId: other }))).code).toBe(
        'cell_not_found',
      )
    }
    expect((await again.backups.list(cell.id, { accountId })).backups).toHaveLength(3)
    await again.backups.restore(cell.id, { accountId })
    expect(again.findCell(cell.id)).toMatchObject({ accountId, deletedAt: null })
    expect(notes(again.openCell(cell.id))).toEqual(['one', 'two', 'three'])
  })
})

describe('A restore is refused', () => {
  test('for another account’s cell as for one that does not exist, without a request', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording })
    const [mine, other] = [store.accounts.create().id, store.accounts.create().id]
    const { cell, versions } = await createChain(store, { accountId: mine })
    recording.forget()
    for (const version of [undefined, versions[0], versionOf(cell.id, 0)]) {
      const error = await rejectedBy(
        store.backups.restore(cell.id, definedOnly({ accountId: other, version })),
      )
      expect(error.code).toBe('cell_not_found')
    }
    expect(recording.calls).toEqual([])
    for (const version of [undefined, versionOf(STRANGER, 0)]) {
      const error = await rejectedBy(
        store.backups.restore(STRANGER, definedOnly({ accountId: other, version })),
      )
      expect(error.code).toBe('cell_not_found')
    }
    expect(notes(cell)).toEqual(LIVE)
  })

  test('for the catalog, and for what is no cell id', async () => {
    const store = await place.create()
    for (const id of [store.id, '', '..', 'catalog', '../../etc']) {
      expect((await rejectedBy(store.backups.restore(id))).code).toBe('cell_not_found')
      expect((await rejectedBy(store.backups.list(id))).code).toBe('cell_not_found')
      expect((await rejectedBy(store.backups.latest(id))).code).toBe('cell_not_found')
      expect((await rejectedBy(store.backups.snapshot(id))).code).toBe('cell_not_found')
    }
  })

  test('with invalid_version for what is none, and backup_not_found for one that is not there', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    const other = await createChain(store)
    const code = async (version: string) =>
      (await rejectedBy(store.backups.restore(cell.id, { version }))).code
    expect(await code('yesterday')).toBe('invalid_version')
    expect(await code(`${cell.id}/backup-20261121T020213.123Z`)).toBe('invalid_version')
    expect(await code(versionOf(cell.id, 0))).toBe('backup_not_found')
    expect(await code(other.versions[0])).toBe('backup_not_found')
    expect(notes(cell)).toEqual(LIVE)
  })

  test('of a cell without a version one is made, and the cell stays as it is', async () => {
    const store = await place.create()
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    const { version } = await store.backups.restore(cell.id)
    expect((await store.backups.list(cell.id)).backups.map((each) => each.version)).toContain(version)
    expect(cell.kv.get('k')).toBe('v')
  })

  test('with restore_in_progress while another runs, which ends as if nothing had been', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'get' && key === versions[0]
    const first = store.backups.restore(cell.id)
    await gated.arrival()
    expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('restore_in_progress')
    gated.open()
    await first
    expect(notes(cell)).toEqual(['one', 'two', 'three'])
    await store.backups.restore(cell.id)
  })
})

describe('A restore and backups of the same cell wait for each other:', () => {
  test('a backup that is asked for during a restore is of the restored cell', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'get' && key === versions[0]
    const restore = store.backups.restore(cell.id, { version: versions[0] })
    await gated.arrival()
    const backup = store.backups.incremental(cell.id)
    await setImmediate()
    gated.open()
    await restore
    const { version, baseVersion } = await backup
    expect(baseVersion).toBeNull()
    addRow(cell, 'later')
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one'])
  })

  test('a restore that is asked for during a backup comes after it', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const backup = store.backups.incremental(cell.id)
    await gated.arrival()
    const restore = store.backups.restore(cell.id, { version: versions[0] })
    await setImmediate()
    expect(notes(cell)).toEqual(LIVE)
    gated.open()
    const { version } = await backup
    await restore
    expect(notes(cell)).toEqual(['one'])
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(LIVE)
  })

  test('and cells that are open across a restore keep their handles, their statements and their KV', async () => {
    const store = await place.create({ openCellsMax: 2 })
    const { cell, versions } = await createChain(store)
    const handle = store.openCell(cell.id)
    handle.kv.put('k', 'v')
    for (const version of versions) {
      notes(handle)
      await store.backups.restore(cell.id, { version })
      expect(handle.kv.get('k')).toBeUndefined()
      expect(notes(handle)).toEqual(notes(cell))
      handle.kv.put('k', 'again')
      addRow(cell, 'goes on')
    }
  })
})

describe('A failed restore changes nothing', () => {
  test('whichever call to the object store fails', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const { cell, versions } = await createChain(store)
    await store.close()
    let n = 1
    for (; ; n++) {
      // Nothing is remembered of manifests, so that every call is made.
      const again = await place.open({ objectStore: failing })
      const same = again.openCell(cell.id)
      failing.failFromHere(n)
      // A connection that breaks off once is made up for.
      failing.forGood = true
      const restore = again.backups.restore(cell.id, { version: versions[2] }).then(
        () => 'restored',
        (error) => error,
      )
      const outcome = await place.advanceUntil(restore)
      failing.failAt = 0
      if (outcome === 'restored') break
      expect(outcome).toMatchObject({ code: 'object_store_unavailable' })
      expect(notes(same)).toEqual(LIVE)
      expect(leftOvers(same)).toEqual([])
      await again.close()
    }
    expect(n).toBeGreaterThan(7)
  })

  test('when the caller cancels it, at any chunk', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    for (let n = 1; ; n++) {
      const abort = new AbortController()
      let chunks = 0
      const restore = store.backups.restore(cell.id, {
        signal: abort.signal,
        onProgress: () => {
          chunks++
          if (chunks === n) abort.abort()
        },
      })
      const outcome = await restore.then(
        () => 'restored',
        (error) => error,
      )
      if (outcome === 'restored') break
      expect(outcome).toBe(abort.signal.reason)
      expect(notes(cell)).toEqual(LIVE)
      expect(leftOvers(cell)).toEqual([])
    }
  })

  test('when the disk is full: disk_full, and not a word of damage', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
      code: 'ENOSPC',
      syscall: 'write',
    })
    const { directory } = place.paths.cell(cell.id)
    const probe = await fs.promises.open(`${directory}/probe`, 'w')
    vi.spyOn(Object.getPrototypeOf(probe), 'write').mockRejectedValueOnce(full)
    await probe.close()
    expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('disk_full')
    expect(notes(cell)).toEqual(LIVE)
    expect(leftOvers(cell)).toEqual([])
  })

  test('when the switch cannot be begun: the old data is served on', async () => {
    const store = await place.create()
    const { cell } = await createChain(store)
    const { writeSync } = fs
    vi.spyOn(fs, 'writeSync').mockImplementation(((fd: number, bytes: Buffer, ...rest: []) => {
      if (bytes.includes('switch'))
        throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO', syscall: 'write' })
      return writeSync(fd, bytes, ...rest)
    }) as typeof fs.writeSync)
    expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('internal')
    vi.restoreAllMocks()
    expect(notes(cell)).toEqual(LIVE)
    expect(leftOvers(cell)).toEqual([])
    const { version } = await store.backups.incremental(cell.id)
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(LIVE)
  })

  test('when the cell is deleted while it is built: it stays deleted', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated })
    const { cell, versions } = await createChain(store)
    for (const at of versions) {
      gated.gates = (call, key) => call === 'get' && key === at
      const restore = rejectedBy(store.backups.restore(cell.id))
      await gated.arrival()
      store.deleteCell(cell.id)
      gated.open()
      expect((await restore).code).toBe('cell_not_found')
      expect(store.findCell(cell.id)?.deletedAt).not.toBeNull()
      expect(fs.existsSync(place.paths.cell(cell.id).database)).toBe(false)
      await store.backups.restore(cell.id)
    }
  })

  test('and an object store’s own error comes back as it is', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const { cell } = await createChain(store)
    const wrong = new CellError('object_store_error', 'It answered nonsense.')
    failing.error = () => wrong
    failing.failFromHere(3)
    await expect(store.backups.restore(cell.id)).rejects.toBe(wrong)
  })
})
