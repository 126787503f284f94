import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Session } from 'node:inspector/promises'
import { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { ConnectionOrder } from '../../src/http/connection-order.ts'
import { PIPELINED_MAX, ReadCosts } from '../../src/http/read-costs.ts'
import { FakeClock } from '../support/fake-clock.ts'

class Answer extends EventEmitter {
  writableFinished = false
  headersSent = false
}

async function collectGarbage(): Promise<void> {
  const session = new Session()
  session.connect()
  onTestFinished(() => session.disconnect())
  await session.post('HeapProfiler.collectGarbage')
}

test('what waited on a connection does not outlive it with its socket and its first answer, which Node.js keeps', async () => {
  const order = new ConnectionOrder(new ReadCosts(new FakeClock()))
  const socket = new PassThrough()
  const request = { socket, httpVersionMajor: 1 } as unknown as IncomingMessage
  const first = new Answer()
  let begun = 0
  const start = () => begun++
  order.take(request, first as unknown as ServerResponse, start)
  const waiting = Array.from({ length: 20 }, () => {
    const answer = new Answer()
    order.take(request, answer as unknown as ServerResponse, start)
    return new WeakRef(answer)
  })
  await new Promise((resolve) => socket.once('close', resolve).destroy())
  await collectGarbage()
  // The last one is the connection's latest.
  expect(waiting.slice(0, -1).filter((answer) => answer.deref() !== undefined)).toEqual([])
  expect({ begun, listeners: first.listenerCount('finish') }).toEqual({ begun: 1, listeners: 1 })
})

test('a request whose connection closes before its turn does not count as waiting for ever', async () => {
  const costs = new ReadCosts(new FakeClock())
  const order = new ConnectionOrder(costs)
  let sender = ''
  for (let i = 0; i < PIPELINED_MAX; i++) {
    const closing = new Socket()
    costs.add(closing)
    sender = costs.senderOf(closing)
    const request = { socket: closing, httpVersionMajor: 1 } as unknown as IncomingMessage
    const [first, second] = [new Answer(), new Answer()]
    for (const answer of [first, second]) order.take(request, answer as unknown as ServerResponse, () => {})
    first.emit('finish')
    // It is destroyed, and its turn comes before its end is told.
    Object.defineProperties(closing, { destroyed: { value: true }, writable: { value: false } })
    await turnOfTheLoop()
    closing.emit('close')
  }
  const socket = new Socket()
  costs.add(socket)
  costs.pipelined(sender, socket)
  expect(costs.senderOf(socket)).toBe(sender)
  expect(costs.mayParse(socket, () => true)).toBe(true)
})
