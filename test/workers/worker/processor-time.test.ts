import { expect, test } from 'vitest'
import { ProcessorTime } from '../../../src/workers/worker/processor-time.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** Milliseconds from which one operation is heavy: see `node/probation.ts`. */
const HEAVY_MS = 1

test('cells that take little time each are told apart well enough that none of them looks heavy', () => {
  const clock = new FakeClock()
  const time = new ProcessorTime(clock, () => clock.monotonic())
  time.begin()
  const laps = Array.from({ length: 40 }, () => {
    clock.advance(0.15)
    return time.lap()
  })
  expect(Math.max(...laps)).toBeLessThan(HEAVY_MS / 2)
  expect(laps.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(40 * 0.15 - HEAVY_MS / 2)
})
