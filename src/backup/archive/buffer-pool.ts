/** What an incompressible block of the usual size takes. */
const USUAL_BYTES = 1_048_576 + 65_536

/**
 * The memory that blocks are collected in, used again and again: as garbage, a large archive's worth of it has the
 * collector look through the whole heap a dozen times.
 */
export class BufferPool {
  readonly #free: Buffer[] = []

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(USUAL_BYTES)
  }

  /** Room for `bytes`, with the first `used` of `block` in it. */
  enlarge(block: Buffer, used: number, bytes: number): Buffer {
    if (bytes <= block.length) return block
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * block.length))
    block.copy(larger, 0, 0, used)
    this.give(block)
    return larger
  }

  /** @param block what was taken, or a part of it; an enlarged one is let go of */
  give({ buffer }: Buffer): void {
    if (buffer.byteLength === USUAL_BYTES) this.#free.push(Buffer.from(buffer))
  }
}
