import { beforeEach, describe, expect, test } from 'vitest'
import { AgedHorizon, type KeptHorizons } from '../../../src/backup/versions/retention/aged-horizon.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { perTest } from '../../support/per-test.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const WEEK_MS = 7 * DAY_MS

const clock = perTest(() => new FakeClock())
let kept: KeptHorizons | undefined
let horizon: AgedHorizon
beforeEach(() => {
  kept = undefined
  restart()
})

function restart(): void {
  const noteHorizons = (next: KeptHorizons) => {
    kept = next
  }
  horizon = new AgedHorizon({ horizons: () => kept, noteHorizons }, clock)
}

/** Looks every six hours. @returns the ages that were allowed to go, in days; undefined: none */
function looks(days: number, historyMs = WEEK_MS): (number | undefined)[] {
  return Array.from({ length: days * 4 }, () => {
    const counts = horizon.of(historyMs)
    const age = counts === undefined ? undefined : (clock.now() - counts) / DAY_MS
    clock.advance(6 * HOUR_MS)
    return age
  })
}

describe('The horizon of log objects', () => {
  test('counts a day after it was noted, also across restarts', () => {
    expect(looks(1)).toEqual([undefined, undefined, undefined, undefined])
    restart()
    expect(looks(1)).toEqual([8, 8.25, 8.5, 8.75])
    expect(looks(1)).toEqual([8, 8.25, 8.5, 8.75])
  })

  test('is not that of a clock which is ahead at a start, and right again within a day', () => {
    looks(3)
    const right = clock.now() - WEEK_MS
    clock.step(9 * DAY_MS)
    restart()
    for (let look = 0; look < 3; look++) {
      expect(horizon.of(WEEK_MS)).toBeLessThanOrEqual(right)
      clock.advance(6 * HOUR_MS)
    }
    clock.step(-9 * DAY_MS)
    restart()
    for (const age of looks(4)) expect(age).toBeGreaterThanOrEqual(7)
  })

  test('is not that of one start with too short a history', () => {
    looks(3)
    for (const age of looks(0.5, HOUR_MS)) expect(age).toBeGreaterThanOrEqual(7)
    restart()
    for (const age of looks(4)) expect(age).toBeGreaterThanOrEqual(7)
  })

  test('does not count for a day after the clock was set under a running node', () => {
    looks(3)
    clock.step(9 * DAY_MS)
    expect(looks(1)).toEqual([undefined, undefined, undefined, undefined])
  })
})
