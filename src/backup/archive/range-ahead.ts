import type { ByteRange } from '../object-store/byte-range.ts'

/** A range of an object that is received into memory before it is needed. */
export class RangeAhead {
  readonly range: ByteRange
  readonly #memory: Buffer
  readonly #abort = new AbortController()
  readonly #reception: Promise<void>
  readonly #onClose: () => void
  #received = 0
  #closed: Promise<void> | undefined
  #hasEnded = false
  #failure: { error: unknown } | undefined
  #news = Promise.withResolvers<void>()

  /**
   * @param memory of at least the range's length
   * @param open starts to receive the range, until the signal aborts
   * @param onClose called once it no longer uses the memory
   */
  constructor(
    range: ByteRange,
    memory: Buffer,
    open: (ended: AbortSignal) => AsyncIterable<Uint8Array>,
    onClose: () => void,
  ) {
    this.range = range
    this.#memory = memory
    this.#onClose = onClose
    this.#reception = this.#receive(open(this.#abort.signal))
  }

  /** Its bytes, as they come, once. Then its memory is free. @throws what ended them early */
  async *bytes(): AsyncGenerator<Uint8Array> {
    try {
      for (let at = 0; ; ) {
        if (at < this.#received) {
          const part = this.#memory.subarray(at, this.#received)
          at = this.#received
          yield part
        } else if (this.#failure !== undefined) throw this.#failure.error
        else if (this.#hasEnded) return
        else await this.#news.promise
      }
    } finally {
      await this.close()
    }
  }

  /** Stops it, and frees its memory. Repeats change nothing. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#abort.abort()
    await this.#reception
    this.#onClose()
  }

  async #receive(source: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const chunk of source) {
        const part = chunk.subarray(0, this.range.length - this.#received)
        this.#memory.set(part, this.#received)
        this.#received += part.length
        this.#tell()
      }
    } catch (error) {
      this.#failure = { error }
    }
    this.#hasEnded = true
    this.#tell()
  }

  #tell(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }
}
