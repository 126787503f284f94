import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { CellError } from '../../src/errors.ts'
import { WorkerPool } from '../../src/workers/node/worker-pool.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { openWorkerStore } from '../support/worker-store.ts'

test('a cell that is deleted while it is described is not described', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  const described = rejectedBy(service.describe(id))
  store.lifecycle.markDeleted(id)
  expect((await described).code).toBe('cell_not_found')
})

test('a purge of a deleted cell waits for the backup that the archiver is storing, and removes it', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  await service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (randomblob(1000000))' })
  const begun = Promise.withResolvers<void>()
  const backup = service.backup(id, 'snapshot', { onProgress: () => begun.resolve() })
  const ended = backup.catch((error: CellError) => error.code)
  await begun.promise
  store.lifecycle.markDeleted(id)
  await store.purgeCell(id)
  await ended
  const objects = path.join(store.paths.root, '..', 'objects')
  expect(filesBelow(objects).filter((file) => file.includes(id))).toEqual([])
})

test('a deletion counts for the account that asks for it, and for nobody if the owner of the store does', async () => {
  const { store, service } = await openWorkerStore()
  const holdingUp = vi.spyOn(WorkerPool.prototype, 'holdingUp')
  const runTask = vi.spyOn(WorkerPool.prototype, 'runTask')
  onTestFinished(() => void vi.restoreAllMocks())
  for (const accountId of ['an account', undefined]) {
    const { id } = store.createCell()
    await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
    runTask.mockClear()
    await service.deleteCell(id, { permit: { check: () => {}, accountId } })
    expect(holdingUp.mock.calls.map(([asking]) => asking)).toEqual([accountId, accountId])
    const tasks = new Map(
      runTask.mock.calls.map(([{ task }, options]) => [task, options?.isAskedFor ?? false]),
    )
    const isAskedFor = accountId !== undefined
    // Its last backup too.
    expect(Object.fromEntries(tasks)).toMatchObject({ cut: isAskedFor, release: isAskedFor })
    holdingUp.mockClear()
  }
})
