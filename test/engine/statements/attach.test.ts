import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { openTestStore } from '../../support/open-test-store.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { thrownBy } from '../../support/thrown.ts'

async function opened() {
  const { store, directory } = await openTestStore()
  const cell = store.cell('acme')
  cell.kv.put('k', 'v')
  const attached = () => cell.sql('PRAGMA database_list').rows.map(({ name }) => name)
  return { store, directory, cell, attached }
}

test('a file that is attached is read and written, and detached', async () => {
  const { cell, attached } = await opened()
  const file = path.join(tempDirectory(), 'other.db')
  fs.writeFileSync(file, '')
  cell.sql('ATTACH ? AS o', [file])
  cell.exec('CREATE TABLE o.t (a); INSERT INTO o.t VALUES (1)')
  expect(attached()).toEqual(['main', 'o'])
  cell.sql('DETACH o')
  const other = new Database(file)
  onTestFinished(() => void other.close())
  expect(other.prepare('SELECT a FROM t').all()).toEqual([{ a: 1 }])
})

test.each([
  ['a folder that is missing', '/nowhere/x.db', 'SQLITE_CANTOPEN', /unable to open database: .*nowhere/],
  ['a folder', '/', 'SQLITE_CANTOPEN', /unable to open database: /],
  ['a file that is no database', import.meta.filename, 'SQLITE_NOTADB', /file is not a database/],
])('%s cannot be attached, and the cell is as well as before', async (_, file, sqliteCode, message) => {
  const { cell, attached } = await opened()
  const error = thrownBy(() => cell.sql('ATTACH ? AS o', [file]))
  expect(error).toMatchObject({ code: 'sql_error', details: { sqliteCode } })
  expect(error.message).toMatch(message)
  expect(attached()).toEqual(['main'])
  expect(cell.kv.get('k')).toBe('v')
})

test('a copy that has nowhere to go is an error of the statement', async () => {
  const { cell } = await opened()
  const error = thrownBy(() => cell.sql("VACUUM INTO '/nowhere/x.db'"))
  expect(error).toMatchObject({ code: 'sql_error', details: { sqliteCode: 'SQLITE_CANTOPEN' } })
  expect(error.message).toMatch(/unable to open database: .*nowhere/)
})

test.each<[string, (directory: string, cellFile: string, otherFile: string) => string]>([
  ['the catalog', (directory) => path.join(directory, 'catalog.db')],
  ['the local state', (directory) => path.join(directory, 'local.db')],
  ['the cell itself', (_, cellFile) => cellFile],
  ['another cell', (_, __, otherFile) => otherFile],
  ['a file behind ..', (directory) => `${path.join(directory, 'cells')}/../catalog.db`],
  [
    'a file behind a link',
    (directory) => {
      const link = path.join(tempDirectory(), 'link')
      fs.symlinkSync(directory, link)
      return path.join(link, 'catalog.db')
    },
  ],
])("%s is not attached: it is a file of the store's", async (_, fileOf) => {
  const { store, directory, cell, attached } = await opened()
  const other = store.cell('other')
  other.kv.put('secret', 'theirs')
  const pathOf = ({ id }: { id: string }) => path.join(directory, 'cells', id.slice(0, 2), id, 'cell.db')
  const file = fileOf(directory, pathOf(cell), pathOf(other))
  const attach = () => cell.sql("ATTACH ? AS 'o \"x'", [file])
  expect(thrownBy(attach)).toMatchObject({ code: 'statement_not_allowed' })
  expect(attached()).toEqual(['main'])
  expect(thrownBy(() => cell.transaction(attach)).code).toBe('statement_not_allowed')
  expect(attached()).toEqual(['main'])
  cell.kv.put('k', 'w')
  expect(other.kv.get('secret')).toBe('theirs')
})
