import { createHash } from 'node:crypto'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'

/** Hashed in one turn of the event loop: a tenth of a millisecond's work. */
const SLICE_BYTES = 262_144

/** SHA-256 over a long stream that lets everything else on the event loop have its turn. */
export class PacedHash {
  readonly #hash = createHash('sha256')

  async update(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      this.#hash.update(bytes.subarray(at, at + SLICE_BYTES))
      if (bytes.length > SLICE_BYTES) await turnOfTheLoop()
    }
  }

  /** In hexadecimal. */
  digest(): string {
    return this.#hash.digest('hex')
  }
}
