import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { WorkerPool } from '../../src/workers/node/dispatch/worker-pool.ts'
import { CellDeletions } from '../../src/workers/node/placement/cell-deletions.ts'
import { statementsOf } from '../support/request-bounds.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'
import { openWorkerStore } from '../support/worker-store.ts'

test('a cell that is deleted while it is described is not described', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  const described = rejectedBy(service.describe(id))
  store.lifecycle.setDeleted(id)
  expect((await described).code).toBe('cell_not_found')
})

test('a purge of a deleted cell waits for the backup that the archiver is storing, and removes it', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  await service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (randomblob(1000000))' })
  const begun = Promise.withResolvers<void>()
  const backup = service.backups.snapshot(id, { onProgress: () => begun.resolve() })
  const ended = backup.catch((error: CellError) => error.code)
  await begun.promise
  store.lifecycle.setDeleted(id)
  await store.purgeCell(id)
  await ended
  const objects = path.join(store.paths.root, '..', 'objects')
  expect(filesBelow(objects).filter((file) => file.includes(id))).toEqual([])
})

test('a deletion that is refused leaves the cell, and no note that a start would take for a deletion', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  const check = () => {
    throw new CellError('unauthorized', 'The key was revoked meanwhile.')
  }
  await expect(service.deleteCell(id, { permit: { check, accountId: 'a' } })).rejects.toMatchObject({
    code: 'unauthorized',
  })
  expect(await service.execute(id, { op: 'sql', sql: 'SELECT 1' })).toBeDefined()
  expect(filesBelow(store.paths.spool).filter((file) => file.includes(id))).toEqual([])
})

test('of two deletions at once the second finds no cell, and nothing of it stays', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
  const [first, second] = await Promise.allSettled([service.deleteCell(id), service.deleteCell(id)])
  expect(first).toMatchObject({ status: 'fulfilled' })
  expect(second).toMatchObject({ status: 'rejected', reason: { code: 'cell_not_found' } })
  expect(filesBelow(store.paths.spool)).toEqual([])
  expect(filesBelow(store.paths.root).filter((file) => file.includes(id))).toEqual([])
})

test('a restore of a deleted cell waits until its files are out of the way, and brings it back whole', async () => {
  const { store, service } = await openWorkerStore()
  const { id } = store.createCell()
  await service.execute(id, { op: 'sql', sql: 'CREATE TABLE t AS SELECT 1 AS x' })
  await service.backups.snapshot(id)
  const asked = Promise.withResolvers<void>()
  onTestFinished(() => void vi.restoreAllMocks())
  const order: string[] = []
  const { runTask } = WorkerPool.prototype
  vi.spyOn(WorkerPool.prototype, 'runTask').mockImplementation(async function (this: WorkerPool, ...args) {
    const [{ task }] = args
    // The record says deleted already, and the files are still there.
    if (task === 'release') await asked.promise
    if (task === 'begin-restore') order.push('restore')
    return await runTask.apply(this, args)
  } as typeof runTask)
  const { untilMoved } = CellDeletions.prototype
  vi.spyOn(CellDeletions.prototype, 'untilMoved').mockImplementation(function (this: CellDeletions, cellId) {
    asked.resolve()
    return untilMoved.call(this, cellId)
  })
  const moveAside = store.files.moveAside.bind(store.files)
  vi.spyOn(store.files, 'moveAside').mockImplementation((cellId) => {
    order.push('files moved')
    return moveAside(cellId)
  })
  const deletion = service.deleteCell(id)
  await turnsUntil(() => store.findCell(id)?.deletedAt !== null, 'the cell is marked as deleted')
  await service.backups.restore(id)
  await deletion
  expect(order).toEqual(['files moved', 'restore'])
  const { rows } = await service.execute(id, { op: 'sql', sql: 'SELECT x FROM t' })
  expect(rows).toEqual([{ x: 1 }])
})

test('a cell whose own statement runs is stored before it is deleted, however long that takes', async () => {
  const { store, service } = await openWorkerStore({ service: { bounds: statementsOf(6_000) } })
  const { id } = store.createCell()
  await service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  const long = 'WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) AS n FROM c'
  const statement = rejectedBy(service.execute(id, { op: 'sql', sql: long }))
  // The worker has it after this turn of the event loop.
  await turnOfTheLoop()
  await service.deleteCell(id)
  expect((await statement).code).toBe('statement_timeout')
  await service.backups.restore(id)
  expect(await service.execute(id, { op: 'kv.get', key: 'k' })).toMatchObject({ value: 'v' })
})
