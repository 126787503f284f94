import { Socket } from 'node:net'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { COSTS, ReadCosts } from '../../src/http/read-costs.ts'
import { CHARGED_CHUNKS, servedMessage } from '../../src/http/served-message.ts'
import { FakeClock } from '../support/fake-clock.ts'

function chunkedRequest(costs = new ReadCosts(new FakeClock())) {
  const socket = new Socket()
  costs.add(socket)
  const request = new (servedMessage(costs))(socket)
  request.headers = { 'transfer-encoding': 'chunked' }
  const pieces: string[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece.toString()))
  return { request, pieces }
}

test('small chunks that came with one read are handed on as one piece, in order with longer ones', async () => {
  const { request, pieces } = chunkedRequest()
  const ended = new Promise((resolve) => request.on('end', resolve))
  for (const chunk of ['a', 'b', 'c'.repeat(5_000), 'd', 'e']) request.push(Buffer.from(chunk))
  await turnOfTheLoop()
  for (const chunk of ['f', 'g']) request.push(Buffer.from(chunk))
  request.push(null)
  await ended
  expect(pieces).toEqual(['ab', 'c'.repeat(5_000), 'de', 'fg'])
})

test('ten thousand chunks are one piece, and the next read waits until that is used', async () => {
  const { request, pieces } = chunkedRequest()
  let asksForMore = true
  for (let i = 0; i < 10_000; i++) asksForMore = request.push(Buffer.from(String(i % 10)))
  expect(asksForMore).toBe(false)
  await turnOfTheLoop()
  expect(pieces).toEqual(['0123456789'.repeat(1_000)])
})

test('of a body that nobody reads no more is asked for than its stream may hold, however few chunks come at a time', async () => {
  const { request } = chunkedRequest()
  request.pause()
  let taken = 0
  while (request.push(Buffer.alloc(1_000))) if (++taken % 8 === 0) await turnOfTheLoop()
  expect(taken * 1_000).toBeLessThanOrEqual(request.readableHighWaterMark)
})

test('small chunks are charged to the sender, and long ones are not', () => {
  const costs = new ReadCosts(new FakeClock())
  const { request } = chunkedRequest(costs)
  const sender = costs.senderOf(request.socket)
  for (let i = 0; i < 2 * COSTS.burst; i++) request.push(Buffer.alloc(2_000))
  expect(costs.isCostly(sender)).toBe(false)
  for (let i = 0; i < COSTS.burst + CHARGED_CHUNKS; i++) request.push(Buffer.from('a'))
  expect(costs.isCostly(sender)).toBe(true)
})
