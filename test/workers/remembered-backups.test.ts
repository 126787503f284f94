import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { LOG_PREFIX } from '../../src/backup/versions/object-keys.ts'
import { StoreCore } from '../../src/store/store-core.ts'
import { WorkerService } from '../../src/workers/node/dispatch/worker-service.ts'
import { RecordingStore } from '../support/backup/object-store-decorators.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('A node reads no object for backups that its workers stored, and lists nothing for the newest', async () => {
  const folder = tempDirectory('cellstore-workers')
  const objects = new RecordingStore(new FileObjectStore({ root: path.join(folder, 'objects') }))
  // Only the versions that it asks for.
  const backups = { maxLagMs: 3_600_000 }
  const core = await StoreCore.openOrCreate(path.join(folder, 'data'), { objectStore: objects, backups })
  const service = new WorkerService(core, {
    objectStore: objects.url,
    workers: 1,
    waitMs: 60_000,
    bounds: BOUNDS,
  })
  onTestFinished(async () => {
    await service.close(60_000)
    await core.close()
  })
  await service.start()
  const { id } = core.createCell()
  await service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  const versions = [(await service.backups.snapshot(id)).version]
  for (let i = 0; i < 5; i++) versions.push((await service.backups.incremental(id)).version)
  await core.catalogStored()

  objects.forget()
  const listed = await service.backups.list(id, {})
  expect(listed.backups.map(({ version }) => version)).toEqual(versions.toReversed())
  // Which times can be restored depends on the log objects, too.
  const ofVersions = objects.calls.filter(({ key }) => !key.startsWith(LOG_PREFIX))
  expect(ofVersions).toEqual([{ call: 'list', key: `snapshots/${id}/` }])

  objects.forget()
  expect((await service.backups.latest(id))?.version).toBe(versions.at(-1))
  expect(objects.calls).toEqual([
    { call: 'head', key: versions.at(-1) },
    { call: 'head', key: versions[0] },
  ])
})
