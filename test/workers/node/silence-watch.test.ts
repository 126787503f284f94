import { beforeEach, describe, expect, test } from 'vitest'
import { SilenceWatch } from '../../../src/workers/node/archiver/silence-watch.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { perTest } from '../../support/per-test.ts'

const clock = perTest(() => new FakeClock())
let pings: number
let silent: number
let watch: SilenceWatch
beforeEach(() => {
  pings = 0
  silent = 0
  watch = new SilenceWatch(clock, { ping: () => pings++, onSilent: () => silent++ })
})

describe('a process that is asked now and then whether it still answers', () => {
  test('is given up once it has not answered for a minute, and not before', () => {
    clock.advance(64_999)
    expect([pings, silent]).toEqual([1, 0])
    clock.advance(1)
    expect([pings, silent]).toEqual([1, 1])
    clock.advance(600_000)
    expect([pings, silent]).toEqual([1, 1])
  })

  test('is asked again after each answer, however late that came', () => {
    for (let round = 0; round < 10; round++) {
      clock.advance(60_000)
      watch.answered()
    }
    expect(silent).toBe(0)
    expect(pings).toBe(10)
  })

  test('is no longer asked when the watch has ended', () => {
    watch.end()
    clock.advance(600_000)
    expect([pings, silent]).toEqual([0, 0])
  })

  test('is not given up because the machine has slept: its timers fire once after that', () => {
    const due: (() => void)[] = []
    const sleepy = new (class extends FakeClock {
      override setTimer(run: () => void) {
        due.push(run)
        return { cancel: () => {} }
      }
    })()
    new SilenceWatch(sleepy, { ping: () => pings++, onSilent: () => silent++ })
    for (let look = 0; look < 12; look++) {
      sleepy.advance(8 * 3_600_000)
      due.shift()?.()
    }
    expect([pings, silent]).toEqual([1, 0])
  })
})
