import fs from 'node:fs'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { newCellId } from '../../src/base/store-paths.ts'
import { CellError } from '../../src/errors.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

/** The directory and the bucket as a kill at this moment leaves them. */
function killed(): ScratchPlace {
  const other = new ScratchPlace()
  other.directory.mayHaveLogs = true
  const filter = (file: string) => !/(lock|workers)\.db|owner\.json/.test(file)
  fs.cpSync(place.data, other.data, { recursive: true, filter })
  fs.cpSync(place.objects, other.objects, { recursive: true })
  return other
}

/** A cell with a row that is stored. */
async function storedCell(store: CellStore): Promise<string> {
  const cell = createLedger(store)
  addRow(cell, 'stored')
  await store.backups.snapshot(cell.id)
  return cell.id
}

const isHere = (store: CellStore, id: string) => fs.existsSync(store.core.paths.cell(id).directory)

test('A deletion that a kill cuts off leaves nothing of the cell on the disk of the next start', async () => {
  const store = await place.create()
  const id = await storedCell(store)
  const other = await storedCell(store)
  const { files } = store.core
  const remove = files.remove.bind(files)
  let left: ScratchPlace | undefined
  files.remove = (cellId) => {
    left ??= killed()
    remove(cellId)
  }
  store.deleteCell(id)
  expect(isHere(store, id)).toBe(false)
  const next = await (left as ScratchPlace).open({ takeOver: true })
  expect(next.findCell(id)?.deletedAt).not.toBeNull()
  expect(isHere(next, id)).toBe(false)
  expect(notes(next.openCell(other))).toEqual(['stored'])
  await next.backups.restore(id)
  expect(notes(next.openCell(id))).toEqual(['stored'])
})

test('What a deletion has moved aside when a kill comes is removed by the next start', async () => {
  const store = await place.create()
  const id = await storedCell(store)
  store.core.lifecycle.noteDeletionNow(id)
  store.core.lifecycle.markDeleted(id)
  const remove = store.core.lifecycle.moveLocalAside(id, null)
  const left = killed()
  await remove()
  const next = await left.open({ takeOver: true })
  expect(isHere(next, id)).toBe(false)
  expect(fs.readdirSync(next.core.paths.spool)).toEqual([])
  await next.backups.restore(id)
  expect(notes(next.openCell(id))).toEqual(['stored'])
})

test('What cannot be removed from the spool, on a bad block for example, holds up no start', async () => {
  const store = await place.create()
  const other = await storedCell(store)
  const id = await storedCell(store)
  store.core.lifecycle.noteDeletionNow(id)
  store.core.lifecycle.markDeleted(id)
  const remove = store.core.lifecycle.moveLocalAside(id, null)
  const left = killed()
  await remove()
  const { rmSync } = fs
  const failing = vi.spyOn(fs, 'rmSync').mockImplementation((file, options) => {
    if (!String(file).includes('removed-')) return rmSync(file, options)
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO', syscall: 'unlink' })
  })
  onTestFinished(() => failing.mockRestore())
  const next = await left.open({ takeOver: true })
  expect(notes(next.openCell(other))).toEqual(['stored'])
  const { spool } = next.core.paths
  expect(fs.readdirSync(spool)).toHaveLength(1)
  failing.mockRestore()
  fs.rmSync(spool, { recursive: true })
})

test('Files of a deleted cell that a start cannot remove are removed by a later one', async () => {
  const store = await place.create()
  const id = await storedCell(store)
  store.core.lifecycle.noteDeletionNow(id)
  store.core.lifecycle.markDeleted(id)
  const left = killed()
  const { rmSync } = fs
  const failing = vi.spyOn(fs, 'rmSync').mockImplementation((file, options) => {
    if (!String(file).includes(`cells/${id.slice(0, 2)}`)) return rmSync(file, options)
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO', syscall: 'unlink' })
  })
  onTestFinished(() => failing.mockRestore())
  const next = await left.open({ takeOver: true })
  expect(isHere(next, id)).toBe(true)
  await next.close()
  failing.mockRestore()
  const later = await left.open()
  expect(isHere(later, id)).toBe(false)
})

test('The restore of a deleted cell that a kill cuts off after the switch leaves none of its files, and can be repeated', async () => {
  const store = await place.create()
  const id = await storedCell(store)
  store.deleteCell(id)
  const { registry } = store.core
  const undelete = registry.undelete.bind(registry)
  let left: ScratchPlace | undefined
  registry.undelete = (...args) => {
    left = killed()
    undelete(...args)
  }
  await store.backups.restore(id)
  const next = await (left as ScratchPlace).open({ takeOver: true })
  expect(next.findCell(id)?.deletedAt).not.toBeNull()
  expect(isHere(next, id)).toBe(false)
  await next.backups.restore(id)
  expect(notes(next.openCell(id))).toEqual(['stored'])
})

test.each(['deleted', 'forgotten'])(
  'The restore of a %s cell that the catalog has no room for leaves none of its files, and can be repeated',
  async (state) => {
    const store = await place.create({ quotas: { cellsMax: 1 } })
    const account = store.accounts.create().id
    const { id } = store.createCell({ accountId: account })
    store.openCell(id).kv.put('k', 'v')
    await store.backups.snapshot(id)
    store.deleteCell(id)
    if (state === 'forgotten') store.deleteCell(store.createCell({ accountId: account }).id)
    const { registry } = store.core
    const { insert, undelete } = registry
    const full = () => {
      throw new CellError('disk_full', 'The disk is full; nothing of the change was kept.')
    }
    Object.assign(registry, { insert: full, undelete: full })
    expect(await rejectedBy(store.backups.restore(id))).toMatchObject({ code: 'disk_full' })
    expect(isHere(store, id)).toBe(false)
    Object.assign(registry, { insert, undelete })
    await store.backups.restore(id)
    expect(store.openCell(id).kv.get('k')).toBe('v')
  },
)

/** As a power loss can leave it: the note is back, or its removal was never synced. */
function noteNewCell(at: ScratchPlace, id: string): void {
  fs.mkdirSync(at.paths.spool, { recursive: true })
  fs.writeFileSync(`${at.paths.spool}/new-cell-${id}`, '')
}

test('An unfinished new cell on a bad block holds up no start, and a later start removes its files', async () => {
  const store = await place.create()
  const other = await storedCell(store)
  await store.close()
  const id = newCellId()
  const { directory, database } = place.paths.cell(id)
  fs.mkdirSync(directory, { recursive: true })
  fs.writeFileSync(database, 'unfinished')
  noteNewCell(place, id)
  const { rmSync } = fs
  const failing = vi.spyOn(fs, 'rmSync').mockImplementation((file, options) => {
    if (file !== directory) return rmSync(file, options)
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO', syscall: 'unlink' })
  })
  onTestFinished(() => failing.mockRestore())
  const next = await place.open()
  expect(notes(next.openCell(other))).toEqual(['stored'])
  await next.close()
  failing.mockRestore()
  const later = await place.open()
  expect(fs.existsSync(directory)).toBe(false)
  await later.close()
})

// Invariant 14: a catalog that came back from a backup does not know the newest cells.
test('A note of an unfinished new cell removes nothing where the catalog came back from a backup', async () => {
  const store = await place.create()
  await storedCell(store)
  const older = killed()
  const cell = createLedger(store)
  addRow(cell, 'made since')
  await store.close()
  noteNewCell(place, cell.id)
  for (const file of fs.readdirSync(place.data))
    if (file.startsWith('catalog.db')) fs.rmSync(`${place.data}/${file}`)
  fs.rmSync(place.objects, { recursive: true })
  fs.renameSync(older.objects, place.objects)
  const next = await place.open({ takeOver: true })
  expect(isHere(next, cell.id)).toBe(true)
})
