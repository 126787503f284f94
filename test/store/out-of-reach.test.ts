import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { finishRestore } from '../../src/backup/restore/install/restore-install.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { outOfReach } from '../support/out-of-reach.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf } from '../support/thrown.ts'

test('a store whose catalog can not be looked at is not taken for none, and keeps it (invariant 14)', async () => {
  const directory = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
  const store = await directory.create()
  const { id } = store.createCell()
  await store.close()
  const back = outOfReach(directory.paths.catalog)
  await expect(directory.openOrCreate()).rejects.toThrow()
  back()
  const again = await directory.openOrCreate()
  expect(again.cells().cells.map((cell) => cell.id)).toEqual([id])
})

test('a cell whose file can not be looked at is not taken for lost, and not restored (invariant 14)', async () => {
  const objectStore = `file://${path.join(tempDirectory(), 'objects')}`
  const test = await openTestCell({ objectStore })
  const { id } = test.cell
  test.cell.kv.put('k', 'backed up')
  await test.store.backups.snapshot(id)
  test.cell.kv.put('k', 'acknowledged')
  const store = await test.reopen()
  const back = outOfReach(new StorePaths(test.directory).cell(id).database)
  expect(codeOf(() => store.openCell(id).kv.get('k'))).toBe('busy')
  await expect(store.openCell(id).ensureLocal()).rejects.toThrow()
  back()
  expect(store.openCell(id).kv.get('k')).toBe('acknowledged')
})

test('a switch whose intent can not be looked at is not taken for undecided (invariant 10)', async () => {
  const { directory, store, cell } = await openTestCell()
  const paths = new StorePaths(directory).cell(cell.id)
  await store.close()
  fs.copyFileSync(paths.database, paths.restoreTarget)
  fs.writeFileSync(paths.restoreIntent, '')
  const back = outOfReach(paths.restoreIntent)
  expect(() => finishRestore(paths)).toThrow()
  expect(fs.existsSync(paths.restoreTarget)).toBe(true)
  back()
  finishRestore(paths)
  expect([fs.existsSync(paths.restoreTarget), fs.existsSync(paths.restoreIntent)]).toEqual([false, false])
})

test('a log that can not be looked at is not taken for none: the cell is quarantined (invariant 1)', async () => {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (n)')
  const back = outOfReach(`${database.path}-wal`)
  expect(codeOf(() => database.syncs.syncFound())).toBe('cell_quarantined')
  back()
  // A quarantined cell keeps its log.
  database.close()
  for (const suffix of ['-wal', '-shm']) fs.rmSync(database.path + suffix, { force: true })
})
