import { releaseBytes } from '../base/release-bytes.ts'

const CAPACITY_MIN = 16_384

/**
 * The bytes of a body as they come. Most bodies come in one piece, which is taken as it is. The pieces of all others are copied at
 * once: a client chooses how small they are, and a million pieces of one byte would take a hundred times their memory. So would a
 * short one that is a slice of all that was read.
 */
export class BodyBuffer {
  readonly #expected: number | undefined
  readonly #ownsPieces: boolean
  #bytes: Uint8Array = new Uint8Array(0)
  #length = 0
  #isCopy = false

  /**
   * @param expected how long the body will be, if that is known
   * @param ownsPieces nobody else uses the pieces: they are {@link releaseBytes}d once they are copied
   */
  constructor(expected: number | undefined, ownsPieces = false) {
    this.#expected = expected
    this.#ownsPieces = ownsPieces
  }

  get length(): number {
    return this.#length
  }

  /** @returns the length of the piece, which may be gone */
  add(piece: Uint8Array): number {
    const { length } = piece
    if (this.#length === 0) this.#begin(piece)
    else {
      this.#makeRoom(this.#length + length)
      this.#bytes.set(piece, this.#length)
      if (this.#ownsPieces) releaseBytes(piece)
    }
    this.#length += length
    return length
  }

  /** Nobody needs what has come any more. */
  release(): void {
    if (this.#isCopy || this.#ownsPieces) releaseBytes(this.#bytes)
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
