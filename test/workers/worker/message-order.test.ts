import { expect, test } from 'vitest'
import { MessageOrder } from '../../../src/workers/worker/message-order.ts'

/** `batch` waits for its preparation, and is then at work until it is told to end; everything else is done at once. */
function worker() {
  const done: string[] = []
  const prepared = Promise.withResolvers<void>()
  const atWork = Promise.withResolvers<void>()
  let batch: Promise<void> | undefined
  const order = new MessageOrder<string>((message) => {
    if (message !== 'batch') {
      done.push(message)
      return
    }
    batch = order.after(prepared.promise, async () => {
      done.push('batch')
      await atWork.promise
      done.push('batch is over')
    })
    batch.catch(() => {})
  })
  return { order, done, prepared, atWork, ended: () => batch as Promise<void> }
}

test('what comes after a batch waits until that has begun, and no longer', async () => {
  const { order, done, prepared, atWork, ended } = worker()
  for (const message of ['task 1', 'batch', 'task 2', 'stop']) order.take(message)
  expect(done).toEqual(['task 1'])
  prepared.resolve()
  await expect.poll(() => done).toEqual(['task 1', 'batch', 'task 2', 'stop'])
  order.take('task 3')
  atWork.resolve()
  await ended()
  expect(done.slice(4)).toEqual(['task 3', 'batch is over'])
})

test('what comes after a batch is handled also if that cannot be prepared', async () => {
  const { order, done, prepared, ended } = worker()
  for (const message of ['batch', 'task']) order.take(message)
  prepared.reject(new Error('EIO (injected)'))
  await expect(ended()).rejects.toThrow('EIO')
  expect(done).toEqual(['task'])
})
