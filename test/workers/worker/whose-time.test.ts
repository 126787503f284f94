import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newCellId } from '../../../src/base/files/store-paths.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { BatchWorker } from '../../support/workers/batch-worker.ts'

function openWorker(cells: number, openCellsMax: number) {
  const clock = new FakeClock()
  const worker = new BatchWorker(path.join(tempDirectory('cellstore-time'), 'worker'), {
    openCellsMax,
    clock,
  })
  const ids = Array.from({ length: cells }, () => newCellId())
  for (const id of ids) worker.cells.files.write(id)
  return { worker, ids, clock }
}

test('the closing of a cell to make room for another is the closed cell’s time', async () => {
  const { worker, ids } = openWorker(2, 1)
  const [first = '', second = ''] = ids
  worker.sql(first, 'CREATE TABLE t (a)')
  expect(worker.working).toEqual([])
  await worker.run([[{ cellId: second, operation: { op: 'kv.get', key: 'k' } }]])
  expect(worker.working).toEqual([first, undefined])
})

test('the collection of expired entries is the cell’s time, until the turn of the event loop is over, and in each later one', async () => {
  const { worker, ids, clock } = openWorker(1, 10)
  const [id = ''] = ids
  const { kv } = worker.cells.handle(id)
  for (let n = 0; n < 40; n++) kv.put(`k${n}`, 'v', { ttlSeconds: 1 })
  worker.cells.pool.close(id)
  worker.working.length = 0
  clock.advance(2_000)
  const collected = worker.cells.collect(id, new AbortController().signal)
  expect(worker.working).toEqual([id])
  await turnOfTheLoop()
  await collected
  expect(worker.working.slice(0, 3)).toEqual([id, undefined, id])
  expect(worker.working.at(-1)).toBeUndefined()
})

test('the closing of a deleted cell is its own time', () => {
  const { worker, ids } = openWorker(1, 10)
  const [id = ''] = ids
  worker.sql(id, 'CREATE TABLE t (a)')
  worker.cells.release(id)
  expect(worker.working).toEqual([id, undefined])
})
