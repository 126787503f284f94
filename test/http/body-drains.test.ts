import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import {
  BodyDrains,
  CHECK_MS,
  CUTS_AT_ONCE,
  DRAIN_MS_MAX,
  DRAIN_RATE,
  DRAINS_AT_ONCE,
  PLACE_MS,
  WAITING_MAX,
} from '../../src/http/body-drains.ts'
import { FakeClock } from '../support/fake-clock.ts'

/** All are cut by then. */
const LONG_MS = DRAIN_MS_MAX + 1_000
const PIECE = Buffer.alloc(65_536)
const clock = new FakeClock()
let drains = new BodyDrains(clock)
let bodies: PassThrough[] = []

afterEach(async () => {
  for (const body of bodies) body.destroy()
  await turnOfTheLoop()
  bodies = []
  drains = new BodyDrains(clock)
})

/** The rest of a body that comes piece by piece, and what becomes of it. */
function body(sender = 'a') {
  const stream = new PassThrough()
  bodies.push(stream)
  const request = Object.assign(stream, { complete: false }) as unknown as IncomingMessage
  const answer = vi.fn()
  const drained = drains.drain(request, sender, answer)
  return { stream, drained, answer }
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
  clock.advance(LONG_MS)
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

test('a sender has so many bytes per second; another one does not wait for that, and what waits too long is cut', async () => {
  const pieces = 96
  const all = Array.from({ length: DRAIN_RATE.burst / (pieces * PIECE.length) + DRAINS_AT_ONCE }, () =>
    body(),
  )
  let bytes = 0
  for (const { stream } of all) {
    stream.on('data', (piece: Buffer) => {
      bytes += piece.length
    })
    for (let i = 0; i < pieces; i++) stream.write(PIECE)
    stream.end()
  }
  const turns = async (count: number) => {
    for (let i = 0; i < count; i++) await turnOfTheLoop()
  }
  await turns(2_000)
  // Each place may have read a piece or two too much.
  const surplus = 2 * DRAINS_AT_ONCE * PIECE.length
  expect(bytes).toBeGreaterThanOrEqual(DRAIN_RATE.burst)
  expect(bytes).toBeLessThanOrEqual(DRAIN_RATE.burst + surplus)
  const other = body('b')
  other.stream.end(PIECE)
  expect(await other.drained).toBe(true)
  for (let ms = 0; ms < 1_000; ms += CHECK_MS) {
    clock.advance(CHECK_MS)
    await turns(20)
  }
  expect(bytes).toBeGreaterThanOrEqual(DRAIN_RATE.burst + DRAIN_RATE.perSecond - surplus)
  expect(bytes).toBeLessThanOrEqual(DRAIN_RATE.burst + DRAIN_RATE.perSecond + surplus)
  clock.advance(LONG_MS)
  expect(await Promise.all(all.map(({ drained }) => drained))).toContain(false)
})

test('an answer goes out with the first place, or at the deadline; nobody answers a client that has gone', async () => {
  const first = Array.from({ length: DRAINS_AT_ONCE }, () => body())
  const waiting = body()
  const gone = body()
  expect(first.map(({ answer }) => answer.mock.calls.length)).toEqual(first.map(() => 1))
  expect(waiting.answer).not.toHaveBeenCalled()
  gone.stream.destroy()
  expect(await gone.drained).toBe(false)
  for (const { stream } of first) stream.destroy()
  await Promise.all(first.map(({ drained }) => drained))
  expect(waiting.answer).toHaveBeenCalledOnce()
  const late = Array.from({ length: DRAINS_AT_ONCE }, () => body())
  clock.advance(LONG_MS)
  expect(await Promise.all(late.map(({ drained }) => drained))).toEqual(late.map(() => false))
  expect(late.map(({ answer }) => answer.mock.calls.length)).toEqual(late.map(() => 1))
  expect(waiting.answer).toHaveBeenCalledOnce()
  expect(gone.answer).not.toHaveBeenCalled()
})

test('of too many that wait, the next one is answered and cut at once', async () => {
  const all = Array.from({ length: DRAINS_AT_ONCE + WAITING_MAX.ofSender }, () => body())
  const next = body()
  expect(await next.drained).toBe(false)
  expect(next.answer).toHaveBeenCalledOnce()
  const other = body('b')
  for (const { stream } of all) stream.destroy()
  other.stream.end(PIECE)
  expect(await other.drained).toBe(true)
})

test('those whose time is over together are cut a few at a time', async () => {
  const all = Array.from({ length: 10 * CUTS_AT_ONCE }, () => body())
  clock.advance(DRAIN_MS_MAX - CHECK_MS)
  let cut = 0
  for (const { drained } of all) void drained.then(() => cut++)
  for (let before = 0; cut < all.length; before = cut) {
    clock.advance(CHECK_MS)
    await turnOfTheLoop()
    expect(cut - before).toBeLessThanOrEqual(CUTS_AT_ONCE)
  }
})

test('once as many wait as may in all, one more of each sender does, and no other', async () => {
  const senders = Array.from({ length: WAITING_MAX.total / WAITING_MAX.ofSender }, (_, i) => `${i}`)
  for (let i = 0; i < DRAINS_AT_ONCE; i++) body('with a place')
  for (const sender of senders) for (let i = 0; i < WAITING_MAX.ofSender; i++) body(sender)
  const quiet = body('quiet')
  const another = body('quiet')
  expect(await another.drained).toBe(false)
  expect(another.answer).toHaveBeenCalledOnce()
  expect(quiet.answer).not.toHaveBeenCalled()
})
