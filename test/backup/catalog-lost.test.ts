import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { CellStore } from '../../src/store/cell-store.ts'

test('A backup answers only once the catalog is in the object store, also if what was there is gone (invariant 14)', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-catalog-lost-'))
  const objects = path.join(directory, 'objects')
  const options = { objectStore: `file://${objects}` }
  const data = path.join(directory, 'data')
  try {
    const store = await CellStore.create(data, options)
    const { id: accountId } = store.accounts.create()
    const { key } = store.apiKeys.create(accountId)
    const cell = store.createCell({ accountId })
    await store.backups.snapshot(cell.id)
    fs.rmSync(path.join(objects, 'snapshots', store.id), { recursive: true })
    cell.kv.put('later', 'yes')
    await store.backups.snapshot(cell.id)
    await store.close()
    fs.rmSync(data, { recursive: true })
    await using again = await CellStore.open(data, options)
    expect(again.apiKeys.verify(key).accountId).toBe(accountId)
    await again.openCell(cell.id).ensureLocal()
    expect(again.openCell(cell.id).kv.get('later')).toBe('yes')
  } finally {
    fs.rmSync(directory, { recursive: true })
  }
})
