import { expect, test } from 'vitest'
import { beginHold } from '../../src/base/process-stats.ts'
import { FakeClock } from '../support/fake-clock.ts'

test.each([
  ['all of the time that it ran', { elapsed: 30, ran: 30, waited: 0 }, 30],
  ['not the time in which it waited for a processor', { elapsed: 30, ran: 10, waited: 20 }, 10],
  ['of what it waited for the disk, 5 ms', { elapsed: 30, ran: 10, waited: 8 }, 15],
  ['no more than it took, although it is told late of what ran before', { elapsed: 3, ran: 6, waited: 1 }, 2],
  ['5 ms where the system tells nothing', { elapsed: 30, ran: 0, waited: 0 }, 5],
  ['nothing if it waited all the time', { elapsed: 30, ran: 0, waited: 31 }, 0],
])('of a piece of work counts %s', (_what, { elapsed, ran, waited }, counted) => {
  const clock = new FakeClock()
  const told = [
    { ranMs: 100, waitedMs: 50 },
    { ranMs: 100 + ran, waitedMs: 50 + waited },
  ]
  const held = beginHold(clock, () => told.shift() as (typeof told)[number])
  clock.advance(elapsed)
  expect(held()).toBe(counted)
})
