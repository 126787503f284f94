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
  const { open, openSync } = fs
  // The thread pool may take its time.
  const making = vi
    .spyOn(fs, 'open')
    .mockImplementation((...args: unknown[]) => setImmediate(() => Reflect.apply(open, fs, args)))
  onTestFinished(() => making.mockRestore())
  const opening = vi.spyOn(fs, 'openSync').mockImplementation((file, ...rest) => {
    if (file === directory) had.push(fs.existsSync(database))
    return openSync(file, ...rest)
  })
  onTestFinished(() => opening.mockRestore())
  await files.writeAside(id)
  expect(making).toHaveBeenCalledOnce()
  expect(had).toEqual([true])
})

/** The folders that are synced for a cell. */
async function synced(id: string): Promise<string[]> {
  const { directory } = paths.cell(id)
  const opened: string[] = []
  const { openSync } = fs
  const opening = vi.spyOn(fs, 'openSync').mockImplementation((file, ...rest) => {
    opened.push(String(file))
    return openSync(file, ...rest)
  })
  await files.writeAside(id)
  opening.mockRestore()
  const names = {
    [directory]: 'its own',
    [path.dirname(directory)]: 'parent',
    [paths.cells]: 'cells',
    [paths.root]: 'root',
  }
  return opened.map((file) => names[file] ?? file)
}

test('the folders above a new cell’s are synced until this process has done so, whoever has made them (invariant 1)', async () => {
  const like = () => id.slice(0, 2) + newCellId().slice(2)
  // A process that has ended meanwhile may not have synced it.
  fs.mkdirSync(path.dirname(paths.cell(id).directory), { recursive: true })
  const all = ['its own', 'parent', 'cells', 'root']
  expect(await synced(id)).toEqual(all)
  expect(await synced(like())).toEqual(['its own', 'parent'])
  fs.rmSync(paths.cells, { recursive: true })
  expect(await synced(like())).toEqual(all)
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
