import { describe, expect, test } from 'vitest'
import { Lease, leaseTimes, momentOf } from '../../../src/cluster/membership/lease.ts'
import { SteppedClock } from '../../../src/testing/stepped-clock.ts'

/** Of the default 6 s, less the margin of a twentieth. */
const BEAT_MS = 5_700
const LOOK_MS = 2_850

function setUp() {
  const clock = new SteppedClock()
  return { clock, lease: new Lease(clock, leaseTimes(6_000)) }
}

describe('the right to answer (C4)', () => {
  test('a node that nothing has vouched for has none', () => {
    expect(setUp().lease.isValid()).toBe(false)
  })

  test('a beat vouches from its start, not from its answer', () => {
    const { clock, lease } = setUp()
    const startedAt = momentOf(clock)
    clock.advance(1_000)
    lease.beaten(startedAt)
    expect(lease.leftMs()).toBe(BEAT_MS - 1_000)
    clock.advance(BEAT_MS - 1_001)
    expect(lease.isValid()).toBe(true)
    clock.advance(1)
    expect(lease.isValid()).toBe(false)
  })

  test.each(['beaten', 'looked'] as const)('one that was %s is enough', (kind) => {
    const { clock, lease } = setUp()
    lease[kind](momentOf(clock))
    clock.advance((kind === 'beaten' ? BEAT_MS : LOOK_MS) - 1)
    expect(lease.isValid()).toBe(true)
    clock.advance(1)
    expect(lease.isValid()).toBe(false)
  })

  test.each([
    ['the machine slept', (clock: SteppedClock) => clock.sleep(BEAT_MS)],
    ['the wall clock was set forward', (clock: SteppedClock) => clock.step(BEAT_MS)],
  ])('any clock ends it: %s', (_, pass) => {
    const { clock, lease } = setUp()
    lease.beaten(momentOf(clock))
    pass(clock)
    expect(lease.isValid()).toBe(false)
  })

  test('a wall clock that is set back prolongs nothing', () => {
    const { clock, lease } = setUp()
    lease.beaten(momentOf(clock))
    clock.step(-3_600_000)
    clock.advance(BEAT_MS)
    expect(lease.isValid()).toBe(false)
  })

  test('an answer that comes late takes nothing back from a newer one', () => {
    const { clock, lease } = setUp()
    const older = momentOf(clock)
    clock.advance(500)
    lease.beaten(momentOf(clock))
    lease.beaten(older)
    expect(lease.leftMs()).toBe(BEAT_MS)
  })

  test('after another server has answered, a beat counts only once a look that began after it was clean', () => {
    const { clock, lease } = setUp()
    lease.beaten(momentOf(clock))
    const underWay = momentOf(clock)
    clock.advance(BEAT_MS)
    lease.distrustBeats()
    lease.beaten(momentOf(clock))
    expect(lease.isValid()).toBe(false)
    lease.looked(underWay)
    lease.beaten(momentOf(clock))
    expect(lease.isValid()).toBe(false)
    lease.looked(momentOf(clock))
    lease.beaten(momentOf(clock))
    expect(lease.leftMs()).toBe(BEAT_MS)
  })

  test('once it has ended, nothing brings it back', () => {
    const { clock, lease } = setUp()
    lease.end()
    lease.beaten(momentOf(clock))
    lease.looked(momentOf(clock))
    expect(lease.isValid()).toBe(false)
  })
})
