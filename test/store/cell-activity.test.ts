import { expect, test } from 'vitest'
import { CellActivity } from '../../src/store/store-observations.ts'
import { FakeClock } from '../support/fake-clock.ts'

function times(activity: CellActivity, cellId: string, count: number): void {
  for (let i = 0; i < count; i++) activity.count(cellId)
}

test('the busiest cells of the last minutes come first, and quiet ones are forgotten', () => {
  const clock = new FakeClock()
  const activity = new CellActivity(clock)
  times(activity, 'a', 3)
  times(activity, 'b', 5)
  expect(activity.busiest(1)).toEqual([{ cellId: 'b', operations: 5 }])
  clock.advance(61_000)
  times(activity, 'a', 4)
  expect(activity.busiest(2)).toEqual([
    { cellId: 'a', operations: 7 },
    { cellId: 'b', operations: 5 },
  ])
  clock.advance(61_000)
  expect(activity.busiest(2)).toEqual([{ cellId: 'a', operations: 4 }])
  clock.advance(600_000)
  expect(activity.busiest(2)).toEqual([])
})

test('memory is bounded, however many cells are used, and the busiest is still seen', () => {
  const activity = new CellActivity(new FakeClock())
  for (let i = 0; i < 25_000; i++) {
    activity.count(`cell-${i}`)
    if (i % 2 === 0) activity.count('busy')
  }
  expect(activity.busiest(30_000).length).toBeLessThanOrEqual(20_000)
  expect(activity.busiest(1)[0]?.cellId).toBe('busy')
})
