import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { silentLog } from '../../src/base/log.ts'
import { StoreCore } from '../../src/store/store-core.ts'
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
