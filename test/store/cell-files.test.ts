import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { newCellId, StorePaths } from '../../src/base/files/store-paths.ts'
import { CellFiles } from '../../src/store/open/cell-files.ts'
import { filesBelow, tempDirectory } from '../support/temp-directory.ts'

let paths: StorePaths
let files: CellFiles
const id = newCellId()
beforeEach(() => {
  paths = new StorePaths(tempDirectory('cellstore-cell-files'))
  files = new CellFiles(paths)
  fs.mkdirSync(paths.spool)
})

test('the folder of a new cell is synced once it has the file, not before (invariant 1)', async () => {
  const { directory, database } = paths.cell(id)
  const had: boolean[] = []
  const { openSync } = fs
  const { open } = fs.promises
  // The thread pool may take its time.
  const making = vi.spyOn(fs.promises, 'open').mockImplementation(async (...args) => {
    await new Promise(setImmediate)
    return open(...args)
  })
  onTestFinished(() => making.mockRestore())
  const opening = vi.spyOn(fs, 'openSync').mockImplementation((file, ...rest) => {
    if (file === directory) had.push(fs.existsSync(database))
    return openSync(file, ...rest)
  })
  onTestFinished(() => opening.mockRestore())
  await files.writeAside(id)
  expect(had).toEqual([true])
})

test('a cell whose files were moved aside can come back at once, and keeps its new files', async () => {
  await files.writeAside(id)
  fs.writeFileSync(paths.cell(id).wal, 'a log')
  const remove = files.moveAside(id)
  expect(files.exists(id)).toBe(false)
  await files.writeAside(id)
  await remove()
  expect(filesBelow(paths.root)).toEqual([path.relative(paths.root, paths.cell(id).database)])
})

test('files that cannot be moved aside are removed all the same', async () => {
  await files.writeAside(id)
  fs.rmdirSync(paths.spool)
  await files.moveAside(id)()
  expect(filesBelow(paths.root)).toEqual([])
})

test('of a cell without files nothing is removed, and nothing fails', async () => {
  await files.moveAside(id)()
  expect(filesBelow(paths.root)).toEqual([])
})
