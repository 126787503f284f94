import { expect, test } from 'vitest'
import { checkAppends, checkRevocation, checkSwaps, lasting } from '../../support/cluster/history.ts'

const append = (value: number, begun: number, acknowledged = true) => ({
  value,
  begun,
  ended: acknowledged ? begun + 1 : Number.POSITIVE_INFINITY,
  acknowledged,
  by: 'a',
})
const read = (begun: number, ...values: number[]) => ({ begun, ended: begun + 1, values })
const rules = (found: { rule: string }[]) => found.map(({ rule }) => rule)

test('a history in which all is right has no violation: what was not acknowledged may be there or not', () => {
  const appends = [append(1, 0), append(2, 10), append(3, 20, false), append(4, 30, false)]
  expect(checkAppends(appends, [read(5, 1), read(15, 1, 2), read(25, 1, 2, 4)], [1, 2, 3])).toEqual([])
})

test('each kind of violation is found', () => {
  const appends = [append(1, 0), append(2, 10)]
  expect(rules(checkAppends(appends, [], [1]))).toEqual(['nothing acknowledged is lost'])
  expect(rules(checkAppends(appends, [], [1, 2, 2]))).toEqual(['nothing twice'])
  expect(rules(checkAppends(appends, [], [1, 2, 9]))).toEqual(['nothing unasked'])
  expect(rules(checkAppends(appends, [], [2, 1]))).toEqual(['real-time order'])
  expect(rules(checkAppends(appends, [read(12, 1)], [1, 2]))).toEqual(['no stale read'])
  expect(rules(checkAppends([append(1, 0), append(2, 0)], [read(0, 2)], [1, 2]))).toEqual([
    'reads are prefixes',
  ])
  const swap = { from: 'a', begun: 0, ended: 1, acknowledged: true, by: 'a' }
  expect(
    rules(
      checkSwaps([
        { ...swap, to: 'b' },
        { ...swap, to: 'c' },
      ]),
    ),
  ).toEqual(['compare and set'])
  expect(rules(checkRevocation(5, [{ begun: 6, ended: 7, admitted: true }]))).toEqual([
    'a revoked key is refused',
  ])
  expect(checkRevocation(5, [{ begun: 4, ended: 9, admitted: true }])).toEqual([])
})

test('of a node that was lost, only what it acknowledged in the time that the cluster says may be lost', () => {
  const appends = [append(1, 0), append(2, 80), append(3, 90), { ...append(4, 95), by: 'b' }, append(5, 300)]
  const check = (...final: number[]) => {
    const kept = lasting({ appends, swaps: [] }, final, [{ by: 'a', from: 81, until: 120 }])
    return rules(checkAppends(kept.appends, [read(97, 1, 2, 3, 4), read(310, ...final)], final))
  }
  expect(check(1, 2, 3, 4, 5)).toEqual([])
  expect(check(1, 4, 5)).toEqual([])
  const tooMuch = ['nothing acknowledged is lost', 'reads are prefixes', 'no stale read']
  expect(check(2, 3, 4, 5)).toEqual(tooMuch)
  // The other node was not lost.
  expect(check(1, 2, 3, 5)).toEqual(tooMuch)
  expect(check(1, 2, 3, 4)).toContain('nothing acknowledged is lost')
  expect(check(1, 3, 2, 4, 5)).toContain('real-time order')
})
