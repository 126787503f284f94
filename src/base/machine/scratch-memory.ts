const BYTES_MIN = 65_536

/**
 * Memory for what lives no longer than a call, used again and again. With fresh memory outside of V8's heap for each of many short
 * calls, V8 collects the whole heap after every thousand of them.
 */
export class ScratchMemory {
  readonly #bytesMax: number
  #memory: Buffer = Buffer.alloc(0)
  #used = 0
  /** What has been asked for since {@link reset}. */
  #asked = 0

  /** @param bytesMax so much is kept; what is asked for beyond that is fresh */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** @returns memory with any content, until {@link reset} */
  take(bytes: number): Buffer {
    this.#asked += bytes
    if (this.#used + bytes > this.#memory.length) return Buffer.allocUnsafe(bytes)
    const taken = this.#memory.subarray(this.#used, this.#used + bytes)
    this.#used += bytes
    return taken
  }

  /** What was taken may be used again from here on. */
  reset(): void {
    if (this.#asked > this.#memory.length && this.#memory.length < this.#bytesMax) {
      const bytes = 2 ** Math.ceil(Math.log2(Math.max(this.#asked, BYTES_MIN)))
      this.#memory = Buffer.allocUnsafeSlow(Math.min(bytes, this.#bytesMax))
    }
    this.#used = 0
    this.#asked = 0
  }
}
