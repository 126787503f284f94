import { expect, test } from 'vitest'
import { openWorkerStore } from '../support/worker-store.ts'

test('a row that a worker saved after nothing was stored any more does not count once the worker ends without having heard of it', async () => {
  const node = await openWorkerStore({ hasObjects: true })
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  await node.service.backups.snapshot(id)
  const { destination } = node.store
  if (destination === undefined) throw new Error('There is no object store.')
  const stored = destination.progress.find(id)
  expect(stored).toMatchObject({ dirty: false })
  const workers = node.workers
  for (const pid of workers) process.kill(pid, 'SIGSTOP')
  destination.setNothingStored()
  expect(destination.progress.find(id)).toMatchObject({ dirty: true, chain: null })
  // What a worker read before the mark, it writes after it.
  destination.progress.save(stored)
  for (const pid of workers) process.kill(pid, 'SIGKILL')
  await expect.poll(() => destination.progress.find(id)).toMatchObject({ dirty: true, chain: null })
})
