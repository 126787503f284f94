import fs from 'node:fs'
import { describe, expect, test, vi } from 'vitest'
import type { Manifest } from '../../../src/backup/archive/manifest.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { RestoreTasks } from '../../../src/backup/restore/threads/restore-tasks.ts'
import { RestoreThread } from '../../../src/backup/restore/threads/restore-thread.ts'
import { versionOf } from '../../../src/backup/versions/object-keys.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { archiveOf, memberOf, membersIn } from '../../support/backup/archives.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const MIB = 1_048_576
const LARGE = 5 * MIB
const STREAMED = 9 * MIB

const place = ScratchPlace.perTest()

/** What is done with incoming databases on this thread, which serves. */
function tasksHere(): string[] {
  const kinds: string[] = []
  const { run } = RestoreTasks.prototype
  vi.spyOn(RestoreTasks.prototype, 'run').mockImplementation(function (this: RestoreTasks, task) {
    kinds.push(task.kind)
    return run.call(this, task)
  })
  return kinds
}

/** Puts other bytes in the middle of a closed database's pages: what no checksum of a later backup shows. */
function damage(file: string): void {
  const fd = fs.openSync(file, 'r+')
  for (let at = 2 * MIB; at < 3 * MIB; at += 4_096) fs.writeSync(fd, Buffer.alloc(64, 0xff), 0, 64, at)
  fs.closeSync(fd)
}

/** SQLite's checks, on whatever thread. */
function checksMade(): string[] {
  const kinds: string[] = []
  for (const { prototype } of [RestoreThread, RestoreTasks]) {
    const { run } = prototype
    vi.spyOn(prototype, 'run').mockImplementation(function (this: RestoreThread & RestoreTasks, task) {
      if (task.kind === 'prove' || task.kind === 'examine') kinds.push(task.kind)
      return run.call(this, task)
    })
  }
  return kinds
}

async function snapshotOf(store: CellStore, cell: Cell): Promise<string> {
  return (await store.backups.snapshot(cell.id)).version
}

/** What the object of a version holds. */
async function contentOf(store: CellStore, version: string) {
  const object = await store.core.destination?.objectStore.get(version)
  const chunks: Uint8Array[] = []
  for await (const chunk of object?.body ?? []) chunks.push(Buffer.from(chunk))
  const members = await membersIn(Buffer.concat(chunks))
  const manifest = JSON.parse(String(members.get('manifest.json'))) as Manifest
  members.delete('manifest.json')
  return { manifest, members: [...members].map(([name, bytes]) => memberOf(name, bytes)) }
}

describe('A large database is proven on a thread of its own (invariant 10), and a small one is not worth it:', () => {
  test('nothing of a large one is hashed, applied or checked on the thread that serves', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', LARGE)
    await snapshotOf(store, cell)
    addRow(cell, 'small log')
    await store.backups.incremental(cell.id)
    addRow(cell, 'large log', LARGE)
    const { version } = await store.backups.incremental(cell.id)
    addRow(cell, 'later')
    const here = tasksHere()
    await store.backups.restore(cell.id, { version })
    expect(here).toEqual([])
    expect(notes(cell)).toEqual(['base', 'small log', 'large log'])
    expect(cell.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
  })

  test('a small one is proven where it is', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', MIB)
    await snapshotOf(store, cell)
    addRow(cell, 'log')
    const { version } = await store.backups.incremental(cell.id)
    const here = tasksHere()
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['base', 'log'])
    expect(here.filter((kind) => kind !== 'hash')).toEqual(['digest', 'digest', 'apply log', 'prove'])
  })

  test('damage that it finds is backup_corrupt, and nothing is left of the attempt', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 50; i++) addRow(cell, `row ${i}`, LARGE / 50)
    const file = place.paths.cell(cell.id).database
    await store.close()
    damage(file)
    place.directory.isDamaged = true
    const again = await place.open()
    // As cellstore stored it before it checked what it stores.
    vi.spyOn(RestoreThread.prototype, 'run').mockResolvedValueOnce(undefined)
    const version = await snapshotOf(again, again.openCell(cell.id))
    const before = filesBelow(place.data)
    const here = tasksHere()
    expect(await rejectedBy(again.backups.restore(cell.id, { version }))).toMatchObject({
      code: 'backup_corrupt',
      details: { member: 'cell.db' },
      message: expect.stringMatching(/SQLite finds it damaged \(Tree \d+ page \d+.*\)/),
    })
    expect(here).toEqual([])
    expect(filesBelow(place.data)).toEqual(before)
  })

  test('one that is given up in its middle leaves nothing, and the cell as it was', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', LARGE)
    const version = await snapshotOf(store, cell)
    addRow(cell, 'kept')
    const before = filesBelow(place.data)
    const abort = new AbortController()
    const onProgress = () => abort.abort()
    const options = { version, signal: abort.signal, onProgress }
    const restored = await store.backups.restore(cell.id, options).catch((error: unknown) => error)
    expect(restored).toBe(abort.signal.reason)
    expect(filesBelow(place.data)).toEqual(before)
    expect(notes(cell)).toEqual(['base', 'kept'])
  })
})

describe('What SQLite found sound before it was stored is not checked again (invariant 10):', () => {
  test.each([
    ['a small database', MIB],
    ['one that is unpacked at once', LARGE],
    ['a streamed one', STREAMED],
  ])('%s, unless a log is applied to it, or it is to be verified', async (_name, bytes) => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let at = 0; at < bytes; at += MIB) addRow(cell, `row ${at}`, MIB)
    const base = await snapshotOf(store, cell)
    addRow(cell, 'log')
    const { version: withLog } = await store.backups.incremental(cell.id)
    const checks = checksMade()
    await store.backups.restore(cell.id, { version: base })
    expect(checks).toEqual([])
    expect(notes(cell)).toHaveLength(bytes / MIB)
    await store.backups.restore(cell.id, { version: withLog })
    expect(checks).toEqual(['prove'])
    expect(notes(cell)).toHaveLength(bytes / MIB + 1)
    await store.backups.verify(cell.id, { version: base })
    expect(checks).toEqual(['prove', 'prove', 'examine'])
  })

  test('but a base from before that was noted is, and so is one whose check took too long', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', LARGE)
    const check = vi.spyOn(RestoreThread.prototype, 'run').mockResolvedValueOnce(undefined)
    const version = await snapshotOf(store, cell)
    check.mockRestore()
    const checks = checksMade()
    await store.backups.restore(cell.id, { version })
    expect(checks).toEqual(['prove'])
  })

  test.each([
    ['a small base', 1],
    ['one that is unpacked at once', LARGE],
  ])('but %s with a log of its own is, whatever its checksums say of the database', async (_name, bytes) => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'base', bytes)
    const base = await contentOf(store, await snapshotOf(store, cell))
    addRow(cell, 'log')
    const log = await contentOf(store, (await store.backups.incremental(cell.id)).version)
    const version = versionOf(cell.id, place.clock.now() + 1_000)
    const manifest = { ...base.manifest, version, wals: log.manifest.wals }
    const isSound = Promise.resolve(true)
    const archive = await archiveOf([...base.members, ...log.members], manifest, { isSound })
    await store.core.destination?.objectStore.put(version, bufferBody(archive))
    const checks = checksMade()
    await store.backups.restore(cell.id, { version })
    expect(checks).toEqual(['prove'])
    expect(notes(cell)).toEqual(['base', 'log'])
  })

  test('bytes with another hash are refused although SQLite has nothing against them, and nothing is left of the attempt', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let at = 0; at < STREAMED; at += MIB) addRow(cell, `row ${at}`, MIB)
    const version = await snapshotOf(store, cell)
    addRow(cell, 'kept')
    const before = filesBelow(place.data)
    const { run } = RestoreThread.prototype
    const threads = new Set<RestoreThread>()
    vi.spyOn(RestoreThread.prototype, 'run').mockImplementation(async function (this: RestoreThread, task) {
      threads.add(this)
      const result = await run.call(this, task)
      return task.kind === 'digest' ? '0'.repeat(64) : result
    })
    expect(await rejectedBy(store.backups.restore(cell.id, { version }))).toMatchObject({
      code: 'backup_corrupt',
      details: { member: 'cell.db' },
      message: expect.stringContaining('SHA-256'),
    })
    expect(filesBelow(place.data)).toEqual(before)
    expect(notes(cell)).toHaveLength(STREAMED / MIB + 1)
    expect([...threads].map(({ failed }) => failed)).toEqual([true])
  })
})
