import path from 'node:path'
import { expect, test } from 'vitest'
import { filesBelow } from '../../support/temp-directory.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

// The archiver removes old versions at the end of a backup, and may be about to remove this one.
test('a pin is answered once the backup of its cell that the archiver is making has ended', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  const { version } = await service.backups.snapshot(id)
  await service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (randomblob(4000000))' })
  const begun = Promise.withResolvers<void>()
  const backup = service.backups.snapshot(id, { onProgress: () => begun.resolve() })
  await begun.promise
  await store.retention?.pin(id, version)
  const objects = filesBelow(path.join(store.paths.root, '..', 'objects'))
  expect(objects.filter((file) => file.includes(`${id}/backup-`))).toHaveLength(2)
  await backup
})
