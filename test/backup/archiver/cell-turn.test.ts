import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { cellTurn } from '../../../src/backup/archiver/cell-port.ts'
import { JobQueue, type JobQueueLimits } from '../../../src/backup/archiver/job-queue.ts'
import { FakeClock } from '../../support/fake-clock.ts'

const LIMITS: JobQueueLimits = {
  atOnce: { backup: 4, restore: 4, verify: 1 },
  heavyAtOnce: { backup: 4, restore: 4, verify: 1 },
  waitingPerAccountMax: 10,
  waitingMax: 10,
  waitMs: 600_000,
  runMs: 600_000,
}
const NEVER = new Promise<never>(() => {})

test('Jobs whose cells never get a worker give up their slots, with an error that says so', async () => {
  const clock = new FakeClock()
  const queue = new JobQueue(LIMITS, clock)
  const errors: unknown[] = []
  for (const cellId of ['1', '2', '3', '4', '5', '6']) {
    const request = { lane: 'restore', cellId, account: 'a', need: 'requested' } as const
    queue
      .run(request, undefined, ({ signal }) => cellTurn(NEVER, clock, signal))
      .catch((error) => errors.push(error))
  }
  for (const running of [3, 3, 0]) {
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
    expect(queue.load.restore.running).toBe(running)
    clock.advance(60_000)
  }
  expect(errors).toHaveLength(6)
  expect(errors).toContainEqual(
    expect.objectContaining({ code: 'busy', message: expect.stringContaining('The cell was too busy') }),
  )
})

test('A job that waits for its cell ends with its signal', async () => {
  const abort = new AbortController()
  const waiting = cellTurn(NEVER, new FakeClock(), abort.signal)
  abort.abort(new Error('its deadline'))
  await expect(waiting).rejects.toThrow('its deadline')
})
