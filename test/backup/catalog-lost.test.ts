import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ScratchPlace } from '../support/backup/scratch-store.ts'

test('A backup answers only once the catalog is in the object store, also if what was there is gone (invariant 14)', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const { id: accountId } = store.accounts.create()
  const { key } = store.apiKeys.create(accountId)
  const cell = store.createCell({ accountId })
  await store.backups.snapshot(cell.id)
  fs.rmSync(path.join(place.objects, 'snapshots', store.id), { recursive: true })
  cell.kv.put('later', 'yes')
  await store.backups.snapshot(cell.id)
  await store.close()
  place.loseData()
  const again = await place.open()
  expect(again.apiKeys.verify(key).accountId).toBe(accountId)
  await again.openCell(cell.id).ensureLocal()
  expect(again.openCell(cell.id).kv.get('later')).toBe('yes')
})
