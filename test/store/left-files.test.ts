import fs from 'node:fs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import { CellError } from '../../src/errors.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { BuildNotes } from '../../src/store/start/left-files.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

const place = ScratchPlace.perTest()

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

/** As a kill leaves a deletion that has moved the cell's files aside. */
async function killedWhileAside(store: CellStore, id: string): Promise<ScratchPlace> {
  const { lifecycle } = store.core
  lifecycle.noteDeletionNow(id)
  lifecycle.setDeleted(id)
  const remove = lifecycle.moveLocalAside(id, null)
  const left = killed()
  await remove()
  return left
}

/** Files of such names cannot be removed, as on a bad block. @returns mends that */
function failRemovals(isMeant: (file: string) => boolean): () => void {
  const { rmSync } = fs
  const failing = vi.spyOn(fs, 'rmSync').mockImplementation((file, options) => {
    if (!isMeant(String(file))) return rmSync(file, options)
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO', syscall: 'unlink' })
  })
  const mend = () => failing.mockRestore()
  onTestFinished(mend)
  return mend
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
  const left = await killedWhileAside(store, id)
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
  const left = await killedWhileAside(store, id)
  const mend = failRemovals((file) => file.includes('removed-'))
  const next = await left.open({ takeOver: true })
  expect(notes(next.openCell(other))).toEqual(['stored'])
  const { spool } = next.core.paths
  expect(fs.readdirSync(spool)).toHaveLength(1)
  mend()
  fs.rmSync(spool, { recursive: true })
})

test('Files of a deleted cell that a start cannot remove are removed by a later one', async () => {
  const store = await place.create()
  const id = await storedCell(store)
  store.core.lifecycle.noteDeletionNow(id)
  store.core.lifecycle.setDeleted(id)
  const left = killed()
  const mend = failRemovals((file) => file.includes(`cells/${id.slice(0, 2)}`))
  const next = await left.open({ takeOver: true })
  expect(isHere(next, id)).toBe(true)
  await next.close()
  mend()
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

/** As a power loss can leave it: the note's removal was never synced. */
function noteNewCell(id: string): void {
  new BuildNotes(place.paths.spool, 'new-cell').add(id)
}

test('An unfinished new cell on a bad block holds up no start, and a later start removes its files', async () => {
  const store = await place.create()
  const other = await storedCell(store)
  await store.close()
  const id = newCellId()
  const { directory, database } = place.paths.cell(id)
  fs.mkdirSync(directory, { recursive: true })
  fs.writeFileSync(database, 'unfinished')
  noteNewCell(id)
  const mend = failRemovals((file) => file === directory)
  const next = await place.open()
  expect(notes(next.openCell(other))).toEqual(['stored'])
  await next.close()
  mend()
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
  noteNewCell(cell.id)
  for (const file of fs.readdirSync(place.data))
    if (file.startsWith('catalog.db')) fs.rmSync(`${place.data}/${file}`)
  fs.rmSync(place.objects, { recursive: true })
  fs.renameSync(older.objects, place.objects)
  const next = await place.open({ takeOver: true })
  expect(isHere(next, cell.id)).toBe(true)
})
