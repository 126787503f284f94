import { expect, test } from 'vitest'
import { RecentFailures } from '../../src/base/recent-failures.ts'
import { CellError } from '../../src/errors.ts'
import { FakeClock } from '../support/fake-clock.ts'

test('the newest failures are kept, the newest first, and no more than twenty', () => {
  const clock = new FakeClock()
  const failures = new RecentFailures(clock)
  for (let i = 0; i < 50; i++) failures.note('warn', { cellId: `cell-${i}` }, 'it failed')
  const kept = failures.list().map(({ cellId }) => cellId)
  expect(kept).toEqual(Array.from({ length: 20 }, (_, i) => `cell-${49 - i}`))
})

test('a failure that comes again is counted, with its last cause and time', () => {
  const clock = new FakeClock()
  const failures = new RecentFailures(clock)
  const err = new CellError('object_store_unavailable', 'why')
  failures.note('warn', { cellId: 'a', accountId: 'b', requestId: 'c', err }, 'it failed')
  clock.step(5_000)
  failures.note('error', { cellId: 'a', err }, 'it failed')
  failures.note('error', { cellId: 'a', err: new Error('x'.repeat(1_000)) }, 'it failed')
  const [other, repeated, ...rest] = failures.list()
  expect(rest).toEqual([])
  expect(repeated).toEqual({
    level: 'error',
    message: 'it failed',
    code: 'object_store_unavailable',
    why: 'why',
    cellId: 'a',
    accountId: null,
    requestId: null,
    count: 2,
    at: clock.now(),
  })
  expect(other).toMatchObject({ code: null, why: 'x'.repeat(300), count: 1 })
})
