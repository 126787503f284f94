import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LoopTurns, TURN_MS_MAX } from '../../src/base/loop-turns.ts'
import { FakeClock } from '../support/fake-clock.ts'

/** Parts of work, each of which takes so many milliseconds. @returns what was done, in order */
function parts(
  turns: LoopTurns,
  clock: FakeClock,
  ms: number,
): { add(account: string, count: number): void; done: string[] } {
  const done: string[] = []
  const run = (account: string) => () => {
    clock.advance(ms)
    done.push(account)
    return true
  }
  return {
    done,
    add: (account, count) => {
      for (let i = 0; i < count; i++) turns.add(account, run(account))
    },
  }
}

/** How much is done in each of the next turns of the loop. */
async function doneInTurns(done: readonly string[], count: number): Promise<number[]> {
  const counts: number[] = []
  for (let i = 0; i < count; i++) {
    const before = done.length
    await turnOfTheLoop()
    counts.push(done.length - before)
  }
  return counts
}

test('so many parts are done in a turn of the loop, and then everything else', async () => {
  const clock = new FakeClock()
  const turns = new LoopTurns(8, clock)
  const { add, done } = parts(turns, clock, 0)
  add('a', 20)
  expect(done).toEqual([])
  expect(await doneInTurns(done, 4)).toEqual([8, 8, 4, 0])
})

test('on a busy machine fewer are done: none begins after a millisecond, and one is done in each turn however long it takes', async () => {
  const clock = new FakeClock()
  const turns = new LoopTurns(8, clock)
  const short = parts(turns, clock, TURN_MS_MAX / 4)
  short.add('a', 8)
  expect(await doneInTurns(short.done, 3)).toEqual([4, 4, 0])
  const long = parts(turns, clock, 20 * TURN_MS_MAX)
  long.add('a', 3)
  expect(await doneInTurns(long.done, 4)).toEqual([1, 1, 1, 0])
})

test('accounts take turns, also from one turn of the loop to the next: an account waits for one part of each other', async () => {
  const clock = new FakeClock()
  const turns = new LoopTurns(8, clock)
  const { add, done } = parts(turns, clock, TURN_MS_MAX)
  add('a', 100)
  add('b', 2)
  add('c', 1)
  await doneInTurns(done, 6)
  expect(done).toEqual(['a', 'b', 'c', 'a', 'b', 'a'])
})

test('a part that finds nothing to do takes nobody’s place', async () => {
  const clock = new FakeClock()
  const turns = new LoopTurns(1, clock)
  const { add, done } = parts(turns, clock, 0)
  for (let i = 0; i < 50; i++) turns.add('gone', () => false)
  add('a', 1)
  expect(await doneInTurns(done, 1)).toEqual([1])
})
