import { describe, expect, test } from 'vitest'
import { ClockWatch } from '../../../src/backup/versions/clock-watch.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { perTest } from '../../support/per-test.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const clock = perTest(() => new FakeClock())
const watch = perTest(() => new ClockWatch(clock, DAY_MS))

describe('The watch on the wall clock', () => {
  test.for([2 * HOUR_MS, -2 * HOUR_MS])('holds back for a day once somebody has set it by %i ms', (ms) => {
    expect(watch.isPaused()).toBe(false)
    clock.step(ms)
    expect(watch.isPaused()).toBe(true)
    clock.advance(DAY_MS - 1)
    expect(watch.isPaused()).toBe(true)
    clock.advance(1)
    expect(watch.isPaused()).toBe(false)
  })

  test('does not take a machine that sleeps each night for one whose clock is set each morning', () => {
    for (let day = 0; day < 60; day++) {
      clock.advance(16 * HOUR_MS)
      expect(watch.isPaused()).toBe(false)
      clock.sleep(8 * HOUR_MS)
      expect(watch.isPaused()).toBe(false)
    }
  })
})
