import { expect, test } from 'vitest'
import { backOffMs, rest } from '../../src/base/async/back-off.ts'
import { FakeClock } from '../support/fake-clock.ts'

test('each wait is twice as long as the one before, up to the longest; chance takes up to half of it', () => {
  const bounds = { minMs: 100, maxMs: 1_000 }
  expect([0, 1, 2, 3, 4, 5_000].map((n) => backOffMs(n, bounds))).toEqual([100, 200, 400, 800, 1_000, 1_000])
  expect([0, 0.5, 1].map((random) => backOffMs(1, bounds, () => random))).toEqual([100, 150, 200])
})

test('a rest ends with its time, or with the signal', async () => {
  const clock = new FakeClock()
  const abort = new AbortController()
  const ended: string[] = []
  void rest(clock, 100, abort.signal).then(() => ended.push('long'))
  void rest(clock, 50, undefined).then(() => ended.push('short'))
  clock.advance(50)
  await Promise.resolve()
  expect(ended).toEqual(['short'])
  abort.abort()
  await Promise.resolve()
  expect(ended).toEqual(['short', 'long'])
  expect(clock.nextTimerMs).toBeUndefined()
  await rest(clock, 100, abort.signal)
})
