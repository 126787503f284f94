import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../base/clock.ts'

/** After an early answer, this much of what the client still sends is read and dropped before the connection closes, … */
export const LINGER_BYTES_MAX = 16_777_216
/** … and for so long. */
export const LINGER_MS_MAX = 5_000

/**
 * Reads the rest of a refused request's body and drops it: most clients send all of a body before they read the answer, and see a
 * reset if the connection closes first.
 *
 * @returns false if the connection has to be cut: the client has gone, sent too much or took too long
 */
export function linger(request: IncomingMessage, clock: Clock): Promise<boolean> {
  if (request.destroyed) return Promise.resolve(false)
  return new Promise((resolve) => {
    let bytes = 0
    const timer = clock.setTimer(() => end(false), LINGER_MS_MAX)
    const end = (isWhole: boolean) => {
      timer.cancel()
      resolve(isWhole)
    }
    // They stay: without a listener, an error that comes later would end the process.
    request.on('error', () => end(false)).on('close', () => end(false))
    request
      .on('end', () => end(true))
      .on('data', ({ length }: Buffer) => {
        bytes += length
        if (bytes > LINGER_BYTES_MAX) end(false)
      })
    request.resume()
  })
}
