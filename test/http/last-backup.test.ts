import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'

async function served(
  work: (ask: () => Promise<unknown>, store: CellStore, id: string, objects: string) => Promise<void>,
) {
  const directory = tempDirectory()
  const objects = path.join(directory, 'objects')
  const data = new StoreDirectory(path.join(directory, 'data'))
  await data.use(data.create({ objectStore: `file://${objects}` }), async (store) => {
    const { id: accountId } = store.accounts.create()
    const { key } = store.apiKeys.create(accountId)
    const { id } = store.createCell({ accountId })
    const handler = createHandler(store)
    const ask = async () => {
      const response = await handler(
        new Request(`http://localhost/v1/databases/${id}`, { headers: { 'x-api-key': key } }),
      )
      return { http: response.status, ...((await response.json()) as object) }
    }
    await work(ask, store, id, objects)
  })
}

test('The last backup of a cell is the newest that can be restored, not a damaged one', () =>
  served(async (ask, store, id, objects) => {
    const good = await store.backups.snapshot(id)
    const damaged = await store.backups.snapshot(id)
    fs.truncateSync(path.join(objects, damaged.version), 20)
    expect(await ask()).toMatchObject({ http: 200, last_backup: { version: good.version } })
  }))

test('A cell is described also while the object store does not answer, and says what it does not know', () =>
  served(async (ask, store, id, objects) => {
    await store.backups.snapshot(id)
    await store.core.catalogStored()
    fs.renameSync(objects, `${objects}-away`)
    fs.writeFileSync(objects, 'not a folder')
    expect(await ask()).toMatchObject({ http: 200, id, last_backup: null, last_backup_unknown: true })
    fs.rmSync(objects)
    fs.renameSync(`${objects}-away`, objects)
  }))
