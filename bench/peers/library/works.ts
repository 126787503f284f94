import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { Turn } from '../turns.ts'
import { type LibraryStore, ROWS } from './library-peer.ts'

const HOT = Array.from({ length: 100 }, (_, i) => `key:${i}`)
const MANY = Array.from({ length: 10_000 }, (_, i) => `key:${i}`)
const VALUE = 'v'.repeat(90)
const IN_FLIGHT = 100
/** Looking at the clock is not free: one operation of so many is timed. */
const TIMED_ONE_OF = 8
/** A program comes back to its event loop now and then. Some stores end a read transaction only there. */
const OPERATIONS_OF_A_TURN = 1_024

/** Different each time: SQLite writes nothing where a row stays as it was. 100 bytes. */
let values = 0
const value = () => `${VALUE}${String(values++).padStart(10, '0')}`
const at = <T>(list: readonly T[], i: number) => list[(i * 7_919) % list.length] as T

/** What a store is measured by; undefined if it can't do that. */
export const WORKS: Record<string, (store: LibraryStore, ms: number) => Promise<Turn> | undefined> = {
  'get, 100 hot keys': ({ get }, ms) => get && oneAtATime(ms, (i) => get(at(HOT, i))),
  'put, one at a time': ({ put }, ms) => put && oneAtATime(ms, (i) => put(at(MANY, i), value())),
  'put, 100 in flight': ({ put, putShared = put }, ms) =>
    putShared && inFlight(ms, (i) => putShared(at(MANY, i), value())),
  'put, 100 in flight, 100 hot keys': ({ put, putShared = put }, ms) =>
    putShared && inFlight(ms, (i) => putShared(at(HOT, i), value())),
  'incr, 100 in flight': ({ incr }, ms) => incr && inFlight(ms, (i) => incr(`counter:${i % 100}`)),
  'select by key, prepared': ({ selectPrepared: select }, ms) =>
    select && oneAtATime(ms, (i) => select((i * 7_919) % ROWS)),
  'select by key, one row of a text': ({ selectText: select }, ms) =>
    select && oneAtATime(ms, (i) => select((i * 7_919) % ROWS)),
  'select by key, all rows of a text': ({ selectAll: select }, ms) =>
    select && oneAtATime(ms, (i) => select((i * 7_919) % ROWS)),
}

/** What is read must be there, and what was put last must be read. */
export async function fill(store: LibraryStore): Promise<void> {
  for (const key of HOT) await store.put?.(key, value())
  const last = value()
  await store.put?.(HOT[0] as string, last)
  if ((await store.get?.(HOT[0] as string)) !== last) throw new Error('it does not give what was put')
}

/** Runs it again and again, each after the other's end. */
export async function oneAtATime(ms: number, run: (i: number) => unknown): Promise<Turn> {
  const times: number[] = []
  let count = 0
  const started = performance.now()
  for (let now = started; now - started < ms; ) {
    for (let i = 1; i < TIMED_ONE_OF; i++) {
      const pending = run(count++)
      if (pending instanceof Promise) await pending
    }
    const before = performance.now()
    const pending = run(count++)
    if (pending instanceof Promise) await pending
    now = performance.now()
    times.push(now - before)
    if (count % OPERATIONS_OF_A_TURN === 0) await turnOfTheLoop()
  }
  return turnOf(count, performance.now() - started, times)
}

async function inFlight(ms: number, run: (i: number) => unknown): Promise<Turn> {
  const times: number[] = []
  let count = 0
  const started = performance.now()
  const one = async () => {
    for (let now = started; now - started < ms; ) {
      const before = performance.now()
      await run(count++)
      now = performance.now()
      times.push(now - before)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, one))
  return turnOf(count, performance.now() - started, times)
}

/** @param times milliseconds of one operation each */
export function turnOf(count: number, ms: number, times: number[]): Turn {
  times.sort((a, b) => a - b)
  const share = (part: number) => times[Math.floor(times.length * part)] ?? Number.NaN
  return { value: (count * 1_000) / ms, count, p50: share(0.5), p99: share(0.99) }
}
