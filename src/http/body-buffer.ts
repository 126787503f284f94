const CAPACITY_MIN = 16_384

/**
 * The bytes of a body as they come. Most bodies come in one piece, which is taken as it is. The pieces of all others are copied at
 * once: a client chooses how small they are, and a million pieces of one byte would take a hundred times their memory.
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
    if (this.#length === 0) this.#bytes = piece
    else {
      this.#makeRoom(this.#length + piece.length)
      this.#bytes.set(piece, this.#length)
    }
    this.#length += piece.length
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  #makeRoom(length: number): void {
    if (this.#isCopy && length <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(CAPACITY_MIN, length, this.#expected ?? 2 * this.#length))
    grown.set(this.bytes)
    this.#bytes = grown
    this.#isCopy = true
  }
}
