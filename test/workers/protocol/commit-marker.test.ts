import { expect, test } from 'vitest'
import { transactionName, wasCommitted } from '../../../src/workers/protocol/commit-marker.ts'

test.each([
  ['it names the transaction itself', 'e.7.3', true],
  ['it names a later one of the same batch', 'e.7.4', true],
  ['it names an earlier one of the batch', 'e.7.2', false],
  ['it names a transaction of another batch', 'e.8.3', false],
  ['it names one of another node', 'f.7.3', false],
  ['there is no note', undefined, false],
] as const)(
  'whether a transaction was committed shows in the note that is found: %s',
  (_what, note, committed) => {
    expect(wasCommitted(transactionName('e.7', 3), note)).toBe(committed)
  },
)

test('the tenth transaction of a batch is later than the ninth', () => {
  expect(wasCommitted(transactionName('e.7', 9), transactionName('e.7', 10))).toBe(true)
  expect(wasCommitted(transactionName('e.7', 10), transactionName('e.7', 9))).toBe(false)
})
