import { describe, expect, test } from 'vitest'
import { TokenBuckets } from '../../src/base/fairness/token-buckets.ts'
import { FakeClock } from '../support/fake-clock.ts'

describe('memory (invariant 13)', () => {
  test('quiet keys are forgotten', () => {
    const clock = new FakeClock()
    const buckets = new TokenBuckets({ perSecond: 1, burst: 1 }, clock)
    for (let i = 0; i < 100; i++) buckets.take(`key ${i}`)
    expect(buckets.size).toBe(100)
    for (let i = 0; i < 100; i++) {
      clock.advance(1_000)
      buckets.take('a')
    }
    expect(buckets.size).toBe(1)
  })

  test('however many there are, the bound holds', () => {
    const buckets = new TokenBuckets({ perSecond: 1, burst: 1 }, new FakeClock(), 10)
    for (let i = 0; i < 1_000; i++) buckets.take(`key ${i}`)
    expect(buckets.size).toBe(10)
    expect(buckets.waitMs('key 999')).toBe(1_000)
  })
})
