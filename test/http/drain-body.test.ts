import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { DRAIN_MS_MAX, DRAINS_AT_ONCE, drainRest, PLACE_MS } from '../../src/http/drain-body.ts'
import { FakeClock } from '../support/fake-clock.ts'

const PIECE = Buffer.alloc(65_536)
const clock = new FakeClock()
let bodies: PassThrough[] = []

afterEach(async () => {
  for (const body of bodies) body.destroy()
  await turnOfTheLoop()
  bodies = []
})

/** The rest of a body that comes piece by piece, and what becomes of it. */
function body() {
  const stream = new PassThrough()
  bodies.push(stream)
  const drained = drainRest(Object.assign(stream, { complete: false }) as unknown as IncomingMessage, clock)
  return { stream, drained }
}

function flowing(): number {
  return bodies.filter((each) => each.readableFlowing && !each.readableEnded).length
}

test('few refused bodies are read at the same time, and each of the others gets its place', async () => {
  const all = Array.from({ length: 5 * DRAINS_AT_ONCE }, () => body())
  expect(flowing()).toBe(DRAINS_AT_ONCE)
  let most = 0
  const look = () => {
    most = Math.max(most, flowing())
  }
  for (const { stream } of all) stream.on('data', look)
  const ended = all.map(async ({ stream, drained }) => {
    for (let i = 0; i < 12; i++)
      if (!stream.write(PIECE)) await new Promise((next) => stream.once('drain', next))
    stream.end()
    return await drained
  })
  expect(new Set(await Promise.all(ended))).toEqual(new Set([true]))
  expect(most).toBeLessThanOrEqual(DRAINS_AT_ONCE)
})

test('a client that stops sending gives its place up, and is cut at the deadline', async () => {
  const silent = Array.from({ length: DRAINS_AT_ONCE }, () => body())
  const late = body()
  late.stream.end(PIECE)
  await turnOfTheLoop()
  expect(late.stream.readableFlowing).toBe(false)
  clock.advance(PLACE_MS)
  expect(await late.drained).toBe(true)
  clock.advance(DRAIN_MS_MAX)
  expect(await Promise.all(silent.map(({ drained }) => drained))).toEqual(silent.map(() => false))
})

test('a body that breaks off gives its place up', async () => {
  const broken = Array.from({ length: DRAINS_AT_ONCE }, () => body())
  const late = body()
  late.stream.end(PIECE)
  for (const { stream } of broken) stream.destroy()
  expect(await late.drained).toBe(true)
  expect(await Promise.all(broken.map(({ drained }) => drained))).toEqual(broken.map(() => false))
})

test('of each body one piece is read in a turn of the event loop, however much of it waits', async () => {
  let inTurn = 0
  let most = 0
  const all = Array.from({ length: 4 }, () => body())
  for (const { stream } of all)
    stream.on('data', () => {
      most = Math.max(most, ++inTurn)
    })
  for (const { stream } of all) {
    for (let i = 0; i < 20; i++) stream.write(PIECE)
    stream.end()
  }
  let isOver = false
  const ended = Promise.all(all.map(({ drained }) => drained)).then(() => {
    isOver = true
  })
  while (!isOver) {
    inTurn = 0
    await turnOfTheLoop()
  }
  await ended
  // One for each body, and one more for what comes before the loop's next turn begins.
  expect(most).toBeLessThanOrEqual(2 * all.length)
})
