import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import type { Log } from '../../src/base/log.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

const place = ScratchPlace.perTest()

/** As an unmounted disk leaves it: an empty folder, or none. The returned function mounts it again. */
function unmount(how: string): () => void {
  const { cells } = place.paths
  fs.renameSync(cells, `${cells}.away`)
  if (how === 'empty') fs.mkdirSync(cells)
  return () => {
    fs.rmSync(cells, { recursive: true, force: true })
    fs.renameSync(`${cells}.away`, cells)
  }
}

async function storeWithCell() {
  const store = await place.create()
  const cell = createLedger(store)
  addRow(cell, 'backed up')
  await store.backups.snapshot(cell.id)
  addRow(cell, 'only here')
  return { store, cell }
}

describe.each(['empty', 'gone'])('The folder of all cells that is %s', (how) => {
  test('at a start: the start is refused, and nothing is set back', async () => {
    const { store, cell } = await storeWithCell()
    await store.close()
    const mount = unmount(how)
    const error = await rejectedBy(place.open())
    expect(error).toMatchObject({ code: 'cells_missing', message: expect.stringContaining('Mount it') })
    mount()
    const again = await place.open()
    expect(notes(again.openCell(cell.id))).toEqual(['backed up', 'only here'])
  })

  test('is found also where backups go to another object store from this start on', async () => {
    const { store } = await storeWithCell()
    await store.close()
    unmount(how)
    const objectStore = new FileObjectStore({ root: `${place.root}/elsewhere` })
    const options = { objectStore, moveObjectStore: true }
    expect((await rejectedBy(place.open(options))).code).toBe('cells_missing')
    expect((await rejectedBy(place.open(options))).code).toBe('cells_missing')
    place.loseData()
  })

  test('while the store is open: no cell is restored, and none is created', async () => {
    const { store, cell } = await storeWithCell()
    await store.close()
    const again = await place.open()
    const mount = unmount(how)
    expect(codeOf(() => notes(again.openCell(cell.id)))).toBe('cells_missing')
    expect((await rejectedBy(again.openCell(cell.id).ensureLocal())).code).toBe('cells_missing')
    expect((await rejectedBy(again.backups.restore(cell.id))).code).toBe('cells_missing')
    expect((await rejectedBy(again.backups.snapshot(cell.id))).code).toBe('cells_missing')
    expect(codeOf(() => again.createCell())).toBe('cells_missing')
    expect(fs.existsSync(place.paths.cell(cell.id).directory)).toBe(false)
    mount()
    expect(notes(again.openCell(cell.id))).toEqual(['backed up', 'only here'])
  })

  test('and lost for good: without local.db, each cell comes from its newest backup', async () => {
    const { store, cell } = await storeWithCell()
    await store.close()
    unmount(how)
    fs.rmSync(place.paths.localState)
    const again = await place.open()
    await again.openCell(cell.id).ensureLocal()
    expect(notes(again.openCell(cell.id))).toEqual(['backed up'])
  })
})

test.each([
  ['with changes that no backup has is logged as a loss', true],
  ['without such changes is only a warning', false],
])('A cell whose file is lost %s', async (_, isChanged) => {
  const lines: { level: string; fields: Record<string, unknown> }[] = []
  const at = (level: string) => (fields: object) => void lines.push({ level, fields: { ...fields } })
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } as Log
  const store = await place.create({ log })
  const other = store.createCell()
  const cell = createLedger(store)
  const { version } = await store.backups.snapshot(cell.id)
  const since = new Date(place.clock.now()).toISOString()
  place.clock.advance(60_000)
  if (isChanged) addRow(cell, 'only here')
  await store.close()
  fs.rmSync(place.paths.cell(cell.id).directory, { recursive: true })
  const again = await place.open({ log })
  await again.openCell(cell.id).ensureLocal()
  const isAbout = ({ level, fields }: (typeof lines)[number]) =>
    level !== 'info' && fields['cellId'] === cell.id
  expect(lines.filter(isAbout)).toEqual([
    isChanged
      ? { level: 'error', fields: { cellId: cell.id, version, lostSince: since } }
      : { level: 'warn', fields: { cellId: cell.id, version } },
  ])
  expect(again.findCell(other.id)).toBeDefined()
})
