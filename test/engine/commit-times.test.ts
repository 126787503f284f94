import { expect, test, vi } from 'vitest'
import { COMMIT_TIMES_MAX, CommitTimes } from '../../src/engine/wal/commit-times.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { openTestDatabase } from '../support/open-test-database.ts'

/** A log that only counts. */
class CountedLog {
  count = 0
  asked = 0
  inTransaction = false
  frames(): number {
    this.asked++
    return this.count
  }
  framesBefore(frames: number): number {
    return frames - 1
  }
}

function timesOf(log: CountedLog, clock: FakeClock, last = 0, onCommit = () => {}) {
  const times = new CommitTimes(log, { clock, last, onCommit })
  const commit = () => {
    times.changing()
    log.count++
    times.committed()
  }
  return { times, commit }
}

test('each millisecond with commits has one entry, and the log is asked once for it', () => {
  const log = new CountedLog()
  const clock = new FakeClock(1_000)
  const { times, commit } = timesOf(log, clock)
  for (let i = 0; i < 50; i++) commit()
  clock.advance(3)
  for (let i = 0; i < 50; i++) commit()
  expect(log.asked).toBe(1)
  expect(times.take()).toEqual([
    [50, 1_000],
    [100, 1_003],
  ])
  expect(times.take()).toEqual([])
})

test('a count that somebody else has asked for since the last commit is used, and no older one', () => {
  const log = new CountedLog()
  const clock = new FakeClock(1_000)
  const { times, commit } = timesOf(log, clock)
  commit()
  times.counted(log.count)
  clock.advance(1)
  commit()
  expect(log.asked).toBe(0)
  times.counted(log.count)
  commit()
  expect(times.take()).toEqual([
    [1, 1_000],
    [3, 1_001],
  ])
  expect(log.asked).toBe(1)
})

test('a time never steps back, neither behind the last one that is known from before', () => {
  const log = new CountedLog()
  const clock = new FakeClock(1_000)
  const { times, commit } = timesOf(log, clock, 1_500)
  commit()
  expect(times.take()).toEqual([[1, 1_500]])
  clock.step(600)
  commit()
  clock.step(-900)
  commit()
  expect(times.take()).toEqual([[3, 1_600]])
  expect(times.now()).toBe(1_600)
})

test('a commit that begins in the millisecond of others and ends in a later one has its own time', () => {
  const log = new CountedLog()
  const clock = new FakeClock(1_000)
  const { times, commit } = timesOf(log, clock)
  commit()
  times.changing()
  clock.advance(5)
  log.count++
  times.committed()
  expect(times.take()).toEqual([
    [1, 1_000],
    [2, 1_005],
  ])
})

test('the memory is bounded: past it, every second entry goes, and the last one stays', () => {
  const log = new CountedLog()
  const clock = new FakeClock(0)
  const { times, commit } = timesOf(log, clock)
  for (let i = 1; i <= COMMIT_TIMES_MAX + 10; i++) {
    clock.advance(1)
    commit()
  }
  const taken = times.take()
  expect(taken.length).toBeLessThan(COMMIT_TIMES_MAX / 2 + 20)
  expect(taken.at(-1)).toEqual([COMMIT_TIMES_MAX + 10, COMMIT_TIMES_MAX + 10])
  // Each commit was made in the millisecond of its number. An entry has the time of the first of its commits: none is later than it was made.
  for (const [i, [, time]] of taken.entries()) expect(time).toBe((taken[i - 1]?.[0] ?? 0) + 1)
})

test('commits of a log that could not be read for a while get the time of the first of them: none is later than it was made', () => {
  const log = new CountedLog()
  const clock = new FakeClock(1_000)
  const { times, commit } = timesOf(log, clock)
  const fails = () => {
    throw new Error('EIO')
  }
  commit()
  const read = vi.spyOn(log, 'frames').mockImplementation(fails)
  clock.advance(5)
  commit()
  read.mockRestore()
  clock.advance(5)
  commit()
  clock.advance(1)
  commit()
  expect(times.take()).toEqual([
    [2, 1_000],
    [3, 1_010],
    [4, 1_011],
  ])
})

test('the first commit is told once, until somebody has taken note of it', () => {
  const log = new CountedLog()
  let told = 0
  const { times, commit } = timesOf(log, new FakeClock(), 0, () => told++)
  commit()
  commit()
  expect(told).toBe(1)
  times.isNoted = false
  commit()
  expect(told).toBe(2)
})

test('of a real log, the entries are where its commits end', () => {
  const database = openTestDatabase()
  const clock = new FakeClock(1_000)
  const times = database.keepTimes({ clock, last: 0, onCommit: () => {} })
  const ends: [number, number][] = []
  database.sql('CREATE TABLE t (n INTEGER PRIMARY KEY, x)')
  ends.push([database.checkpoints.frames(), clock.now()])
  database.transaction(() => {
    database.sql('INSERT INTO t (x) VALUES (randomblob(9000))')
    clock.advance(7)
  })
  ends.push([database.checkpoints.frames(), clock.now()])
  clock.advance(1)
  database.sql('DELETE FROM t')
  ends.push([database.checkpoints.frames(), clock.now()])
  expect(times.take()).toEqual(ends)
})
