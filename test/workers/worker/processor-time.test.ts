import { expect, test } from 'vitest'
import { ProcessorTime } from '../../../src/workers/worker/processor-time.ts'
import { FakeClock } from '../../support/fake-clock.ts'

const LAP_MS_MAX = 0.5

test('cells that take little time each are told apart well enough that none pays for many', () => {
  const clock = new FakeClock()
  const time = new ProcessorTime(clock, () => clock.monotonic())
  time.begin()
  const laps = Array.from({ length: 40 }, () => {
    clock.advance(0.15)
    return time.lap()
  })
  expect(Math.max(...laps)).toBeLessThan(LAP_MS_MAX)
  expect(laps.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(40 * 0.15 - LAP_MS_MAX)
})
