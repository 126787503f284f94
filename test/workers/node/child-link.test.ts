import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ChildLink } from '../../../src/workers/children/child-link.ts'
import { encodeMessage } from '../../../src/workers/protocol/messages.ts'
import { ANSWERS_FD, REQUESTS_FD } from '../../../src/workers/protocol/protocol.ts'

/** A child process that only has its pipes. */
function childWithPipes() {
  const answers = new PassThrough()
  const stdio: PassThrough[] = []
  stdio[REQUESTS_FD] = new PassThrough()
  stdio[ANSWERS_FD] = answers
  const child = Object.assign(new EventEmitter(), {
    pid: process.pid,
    stdio,
    exitCode: null,
    signalCode: null,
  })
  return { child: child as unknown as ChildProcess, answers }
}

test('a piece with many messages is followed by whatever else the event loop has to do, and all come in order', async () => {
  const { child, answers } = childWithPipes()
  const taken: number[] = []
  new ChildLink<never, number>(child, (message) => taken.push(message))
  const piece = (from: number) =>
    Buffer.concat(Array.from({ length: 100 }, (_, i) => encodeMessage({ message: from + i })))
  for (let i = 0; i < 10; i++) answers.write(piece(i * 100))
  let most = taken.length
  while (taken.length < 1_000) {
    const before = taken.length
    await turnOfTheLoop()
    most = Math.max(most, taken.length - before)
  }
  expect(taken).toEqual(Array.from({ length: 1_000 }, (_, i) => i))
  expect(most).toBeLessThanOrEqual(200)
})

test('a long message in many pieces is read without such a pause', async () => {
  const { child, answers } = childWithPipes()
  const taken: string[] = []
  new ChildLink<never, string>(child, (message) => taken.push(message))
  const text = 'x'.repeat(1_000_000)
  const bytes = encodeMessage({ message: text })
  for (let at = 0; at < bytes.length; at += 65_536) {
    answers.write(bytes.subarray(at, at + 65_536))
    expect(answers.isPaused()).toBe(false)
  }
  await turnOfTheLoop()
  expect(taken).toEqual([text])
})
