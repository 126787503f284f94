import { describe, expect, test } from 'vitest'
import { isCellError } from '../../src/errors.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { type RateLimit, RateLimiter } from '../../src/http/quotas/rate-limiter.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { Bench } from '../support/http/bench.ts'
import { TRANSPORTS } from '../support/http/transports.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { seededRandom } from '../support/seed.ts'
import { thrownBy } from '../support/thrown.ts'
import { checkProblem } from './rows/row.ts'

function limiter(limit: RateLimit) {
  const clock = new FakeClock()
  const limiter = new RateLimiter(limit, clock, () => undefined)
  const takes = (account: string) => {
    try {
      limiter.take(account)
      return true
    } catch (error) {
      if (isCellError(error, 'rate_limited')) return false
      throw error
    }
  }
  const taken = (account: string, tries: number) =>
    Array.from({ length: tries }, () => takes(account)).filter(Boolean).length
  return { clock, limiter, takes, taken }
}

describe('a bucket', () => {
  test('gives a burst at once, and then one token an interval', () => {
    const { clock, taken } = limiter({ perSecond: 10, burst: 5 })
    expect(taken('a', 20)).toBe(5)
    clock.advance(99)
    expect(taken('a', 20)).toBe(0)
    clock.advance(1)
    expect(taken('a', 20)).toBe(1)
    clock.advance(10_000)
    expect(taken('a', 20)).toBe(5)
  })

  test('holds a second’s tokens by default, and always one', () => {
    expect(limiter({ perSecond: 7 }).taken('a', 20)).toBe(7)
    const slow = limiter({ perSecond: 0.1 })
    expect(slow.taken('a', 20)).toBe(1)
    slow.clock.advance(10_000)
    expect(slow.taken('a', 20)).toBe(1)
  })

  test('is an account’s own', () => {
    const { takes, taken } = limiter({ perSecond: 1 })
    expect(taken('a', 5)).toBe(1)
    expect(takes('b')).toBe(true)
  })

  test('says when the next token is there, in whole milliseconds, and it is', () => {
    const { clock, limiter: buckets } = limiter({ perSecond: 3, burst: 2 })
    const random = seededRandom()
    for (let round = 0; round < 1_000; round++) {
      clock.advance(random.below(200))
      try {
        for (;;) buckets.take('a')
      } catch (error) {
        if (!isCellError(error, 'rate_limited')) throw error
        expect(error.details.retryAfterMs).toSatisfy(Number.isInteger)
        clock.advance(error.details.retryAfterMs as number)
        buckets.take('a')
      }
    }
  })

  test('does not care for steps of the wall clock', () => {
    const { clock, taken } = limiter({ perSecond: 5 })
    expect(taken('a', 9)).toBe(5)
    clock.step(365 * 86_400_000)
    expect(taken('a', 9)).toBe(0)
    clock.step(-730 * 86_400_000)
    clock.advance(1_000)
    expect(taken('a', 9)).toBe(5)
  })

  test('never gives more than its burst and what has flowed in since', () => {
    const random = seededRandom()
    const { clock, takes } = limiter({ perSecond: 20, burst: 8 })
    let given = 0
    for (let round = 0; round < 5_000; round++) {
      clock.advance(random.below(60))
      if (takes('a')) given++
      expect(given).toBeLessThanOrEqual(8 + (clock.monotonic() / 1_000) * 20 + 1e-6)
    }
  })
})

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('a rate of %s is none', async (rate) => {
  const { store } = await openTestStore()
  const refusal = (given: RateLimit) => thrownBy(() => createHandler(store, { rate: given }))
  const refused = (field: string) => ({ code: 'invalid_setting', details: { field } })
  expect(refusal({ perSecond: rate })).toMatchObject(refused('rate.perSecond'))
  expect(refusal({ perSecond: 1, burst: rate })).toMatchObject(refused('rate.burst'))
})

describe.each(TRANSPORTS)('through %s', (_name, transport) => {
  test('an account over its rate gets 429 with Retry-After, and no other does', async () => {
    const bench = await Bench.open(transport, { handler: { rate: { perSecond: 0.25, burst: 2 } } })
    const ask = { method: 'GET', path: '/v1/databases' }
    expect((await bench.send(ask)).status).toBe(200)
    expect((await bench.send(ask)).status).toBe(200)
    const refused = await bench.send(ask)
    checkProblem(refused, 429, { code: 'rate_limited', limit: 0.25, usage: 2 })
    expect(refused.headers.get('retry-after')).toBe('4')
    expect((await bench.send({ ...ask, path: '/v1/nothing' })).status).toBe(429)
    expect((await bench.send({ ...ask, key: bench.strangerKey })).status).toBe(200)
    expect((await bench.send({ ...ask, key: 'none' })).status).toBe(401)
    expect((await bench.send({ ...ask, path: '/healthz' })).status).toBe(200)
    await bench.close()
  })
})
