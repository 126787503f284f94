import { createHash } from 'node:crypto'
import { systemClock, turnOfTheLoop } from '../../base/clock.ts'

/** Hashed in one step, which takes about 0.04 ms. */
const SLICE_BYTES = 65_536
/** The share of the loop's other work per turn that hashing may take, and its bound. */
const SHARE = 1 / 8
const TURN_MS_MAX = 2

/**
 * SHA-256 over a long stream that yields to everything else on the event loop. Other work hardly gets slower, and on a busy
 * loop, whose turns are long, hashing still makes progress.
 */
export class PacedHash {
  readonly #hash = createHash('sha256')

  async update(bytes: Uint8Array): Promise<void> {
    let allowedMs = 0
    for (let at = 0; at < bytes.length; ) {
      const began = systemClock.monotonic()
      do {
        this.#hash.update(bytes.subarray(at, at + SLICE_BYTES))
        at += SLICE_BYTES
      } while (at < bytes.length && systemClock.monotonic() - began < allowedMs)
      if (bytes.length <= SLICE_BYTES) return
      const ended = systemClock.monotonic()
      await turnOfTheLoop()
      allowedMs = Math.min((systemClock.monotonic() - ended) * SHARE, TURN_MS_MAX)
    }
  }

  /** In hexadecimal. */
  digest(): string {
    return this.#hash.digest('hex')
  }
}
