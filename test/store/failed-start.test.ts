import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { silentLog } from '../../src/base/log.ts'
import { CellError } from '../../src/errors.ts'
import { startStore } from '../../src/store/start/start-store.ts'
import { CATALOG_SCHEMA, StoreCore } from '../../src/store/store-core.ts'
import { openFilesBelow } from '../support/open-files.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test.runIf(fs.existsSync('/proc/self/fd'))(
  'a start that fails after the catalog is open leaves no file open',
  async () => {
    const directory = path.join(tempDirectory(), 'data')
    const store = await StoreCore.openOrCreate(directory, { log: silentLog })
    const { localState } = store.paths
    await store.close()
    const connection = new Database(localState)
    connection.exec('DROP TABLE expiry_hints; CREATE TABLE expiry_hints (other INTEGER)')
    connection.close()
    await expect(StoreCore.openOrCreate(directory, { log: silentLog })).rejects.toThrow('no such column')
    expect(openFilesBelow(directory)).toEqual([])
  },
)

test('a first start that fails once its prefix is claimed keeps the catalog, so that the next start goes on', async () => {
  const root = tempDirectory()
  const directory = path.join(root, 'data')
  const options = { log: silentLog, objectStore: new FileObjectStore({ root: path.join(root, 'objects') }) }
  const inTheWay = () => {
    throw new CellError('busy', 'Another program has the catalog open.')
  }
  await expect(startStore('open-or-create', directory, options, CATALOG_SCHEMA, inTheWay)).rejects.toThrow(
    'Another program',
  )
  const store = await StoreCore.openOrCreate(directory, options)
  await store.close()
})
