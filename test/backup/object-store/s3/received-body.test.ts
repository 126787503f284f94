import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { CallDeadline } from '../../../../src/backup/object-store/call-deadline.ts'
import { receiveBody } from '../../../../src/backup/object-store/s3/received-body.ts'
import { systemClock } from '../../../../src/base/clock.ts'
import { collectAll } from '../../../support/s3/object-store-checks.ts'

/** Node's own response body hides an error that nobody listens for; what a client wraps it in does not. */
describe('A body that is wrapped in another stream', () => {
  function receive(first: PassThrough, signal?: AbortSignal) {
    const call = new CallDeadline(systemClock, { deadlineMs: 10_000, slowestBytesPerSecond: 1e6 }, signal)
    const resume = async () => new PassThrough().end('whole')
    return receiveBody({ length: 5, first, resume, resumesMax: 1, idleMs: 10_000, clock: systemClock, call })
  }

  test('and fails before anybody reads it does the process no harm, and is asked for again', async () => {
    const stream = new PassThrough()
    const body = receive(stream)
    stream.destroy(new Error('the checksum does not match'))
    await setImmediate()
    expect(Buffer.concat(await collectAll(body)).toString()).toBe('whole')
  })

  test('and is never read is let go of when its call ends', async () => {
    const stream = new PassThrough()
    const controller = new AbortController()
    receive(stream, controller.signal)
    expect(stream.destroyed).toBe(false)
    controller.abort()
    expect(stream.destroyed).toBe(true)
  })
})
