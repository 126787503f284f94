import { expect, onTestFinished, test } from 'vitest'
import { FakeClock } from '../support/fake-clock.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const YEAR_MS = 365 * 24 * 3_600_000

/** Stops the processes of a node, as a debugger or a frozen container does. */
function freeze(node: WorkerStore): void {
  const frozen = node.workers
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  onTestFinished(() => {
    for (const pid of frozen.filter((each) => node.workers.includes(each))) process.kill(pid, 'SIGCONT')
  })
}

/** Lets time pass for the node until `work` has ended. Its workers have their own. */
async function passUntil<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let isOver = false
  const mark = () => {
    isOver = true
  }
  work.then(mark, mark)
  await expect
    .poll(
      () => {
        clock.advance(10)
        return isOver
      },
      { interval: 1 },
    )
    .toBe(true)
  return await work
}

test('a node stops in time although a frozen worker never ends its task (invariant 13)', async () => {
  const clock = new FakeClock()
  const node = await openWorkerStore({ store: { clock } })
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'kv.put', key: 'k', value: 'v', ttlSeconds: 1 })
  await expect.poll(() => node.store.hints.first()?.cellId).toBe(id)
  node.isKilled = true
  freeze(node)
  // Now the entry is due, and its collection never ends.
  clock.advance(5 * YEAR_MS)
  await passUntil(clock, node.service.close(1_000))
})

test('a task of a worker that answers nothing runs in another one (invariant 13)', async () => {
  const clock = new FakeClock()
  const node = await openWorkerStore({ store: { clock }, service: { limits: { silentMs: 2_000 } } })
  const { id } = node.store.createCell()
  await node.service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  freeze(node)
  expect(await passUntil(clock, node.service.describe(id))).toMatchObject({ quarantine: undefined })
  expect(node.lostWorkers.map(({ fields }) => fields['reason'])).toContain('silent')
})
