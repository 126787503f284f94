import { expect, test } from 'vitest'
import { type History, unshippedSegments } from '../../../src/backup/changes/history.ts'
import type { Segment } from '../../../src/backup/changes/segments.ts'

const segment = (sequence: number, frames: number) => ({ sequence, frames }) as Segment
const history = (place: Partial<History>) => ({ sequence: 3, frames: 0, newest: 3, ...place }) as History

test('what follows the shipped place is unshipped, the rest of its own segment too', () => {
  const kept = [segment(3, 10), segment(4, 20)]
  expect(unshippedSegments(history({ frames: 5, newest: 4 }), kept)).toEqual(kept)
})

test('a history has ended where a segment is missing', () => {
  expect(unshippedSegments(history({ newest: 5 }), [segment(3, 10), segment(5, 20)])).toBeUndefined()
})

test('a history has ended where its row is older than a segment, which may have a hole for what was shipped since', () => {
  // The log of number 4 is shipped up to frame 5, and was still in use when the row was written.
  expect(unshippedSegments(history({ sequence: 4, frames: 5 }), [])).toEqual([])
  expect(unshippedSegments(history({ sequence: 4, frames: 5 }), [segment(4, 20)])).toBeUndefined()
})
