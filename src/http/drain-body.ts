import type { IncomingMessage } from 'node:http'
import type { Clock } from '../base/clock.ts'

/** After an early answer, this much of what the client still sends is read and dropped before the connection closes. */
export const DRAIN_BYTES_MAX = 16_777_216
export const DRAIN_MS_MAX = 5_000

/**
 * Reads the rest of a request's body and drops it: most clients send all of it before they read the answer, and see a
 * reset if the connection closes first.
 *
 * @returns false if the client sent too much or took too long, so that the connection has to be cut
 */
export function drainRest(request: IncomingMessage, clock: Clock): Promise<boolean> {
  if (request.complete || request.destroyed) {
    request.resume()
    return Promise.resolve(!request.destroyed)
  }
  return new Promise((resolve) => {
    let size = 0
    const settle = (drained: boolean) => {
      timer.cancel()
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
      // Without a listener, an error that comes later would end the process.
      request.on('error', () => {})
      resolve(drained)
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size > DRAIN_BYTES_MAX) settle(false)
    }
    const onEnd = () => settle(true)
    const onGone = () => settle(false)
    const timer = clock.setTimer(() => settle(false), DRAIN_MS_MAX)
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
    request.resume()
  })
}
