import { releaseBytes } from '../../base/machine/release-bytes.ts'

const CAPACITY_MIN = 16_384

/**
 * The bytes of a body as they come. Most bodies come in one piece, which is taken as it is. The pieces of all others are copied at
 * once: a client chooses how small they are, and a million pieces of one byte would take a hundred times their memory. So would a
 * short one that is a slice of all that was read.
 */
export class BodyBuffer {
  readonly #expected: number | undefined
  #bytes: Uint8Array = new Uint8Array(0)
  #length = 0
  #isCopy = false

  /** @param expected how long the body will be, if that is known */
  constructor(expected: number | undefined) {
    this.#expected = expected
  }

  get length(): number {
    return this.#length
  }

  add(piece: Uint8Array): void {
    if (this.#length === 0) this.#begin(piece)
    else {
      this.#makeRoom(this.#length + piece.length)
      this.#bytes.set(piece, this.#length)
    }
    this.#length += piece.length
  }

  /** Nobody needs what has come any more. Others may still use a piece that was taken as it is. */
  release(): void {
    if (this.#isCopy) releaseBytes(this.#bytes)
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  #begin(piece: Uint8Array): void {
    this.#isCopy = piece.length < piece.buffer.byteLength / 2
    this.#bytes = this.#isCopy ? new Uint8Array(piece) : piece
  }

  #makeRoom(length: number): void {
    if (this.#isCopy && length <= this.#bytes.length) return
    const capacity = this.#expected ?? Math.max(CAPACITY_MIN, 2 * this.#length)
    // Not of Node.js's pool: one short body would keep the memory of several, and could not give its own back.
    const grown = Buffer.allocUnsafeSlow(Math.max(length, capacity))
    grown.set(this.bytes)
    this.release()
    this.#bytes = grown
    this.#isCopy = true
  }
}
