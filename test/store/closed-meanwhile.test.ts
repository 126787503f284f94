import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { filesBelow } from '../support/temp-directory.ts'

const WORK: [what: string, run: (store: CellStore, cell: Cell, file: string) => Promise<unknown>][] = [
  ['a snapshot', (store, { id }) => store.backups.snapshot(id)],
  ['an incremental', (store, { id }) => store.backups.incremental(id)],
  ['a proof', (store, { id }) => store.backups.verify(id)],
  ['a list of backups', (store, { id }) => store.backups.list(id)],
  ['a plan of a restore', (store, { id }) => store.backups.plan(id)],
  ['a prune', async (store, { id }) => store.retention?.prune(id)],
  ['a pin', async (store, { id }) => store.retention?.pin(id, `snapshots/${id}/backup-20260101T000000.000Z`)],
  ['a plan of retention', async (store, { id }) => store.retention?.setPlan(id, 'all:1d')],
  ['a new cell from a backup', (store, { id }) => store.createCell({ from: { cellId: id } })],
  ['an import', (store, _, file) => store.importCell(file)],
  ['an export', (_, cell, file) => cell.export(`${file}.again`)],
]

test.each(WORK)(
  'what a close ends of %s ends in its result or in a known error, and the cell is whole',
  async (_what, run) => {
    const place = new ScratchPlace()
    let store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    const file = path.join(place.root, 'cell.db')
    await cell.export(file)
    addRow(cell, 'two')
    const ended = run(store, cell, file).then(
      () => 'done',
      ({ code }) => code,
    )
    await store.close()
    expect(['done', 'store_closed', 'shutting_down', 'busy']).toContain(await ended)
    store = await place.open()
    expect(notes(store.openCell(cell.id))).toEqual(['one', 'two'])
  },
)

test('a close ends an import whose source gives nothing more, and nothing is left of it', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const silent = async function* () {
    yield Buffer.alloc(100)
    await new Promise(() => {})
  }
  const ended = expect(store.importCell(silent())).rejects.toMatchObject({ code: 'store_closed' })
  await store.close()
  await ended
  expect(filesBelow(place.root).filter((file) => file.includes('import-'))).toEqual([])
})

test('a creation whose file is written when the store closes makes no cell, and leaves no folder of it', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const { files } = store.core
  const writeAside = files.writeAside.bind(files)
  let id: string | undefined
  vi.spyOn(files, 'writeAside').mockImplementation(async (cellId) => {
    await writeAside(cellId)
    id = cellId
    expect(fs.existsSync(store.core.paths.cell(cellId).directory)).toBe(true)
    await store.close()
  })
  await expect(store.core.addCell()).rejects.toMatchObject({ code: 'store_closed' })
  expect(fs.existsSync(place.paths.cell(id as string).directory)).toBe(false)
  const again = await place.open()
  expect(again.cells().cells).toEqual([])
})
