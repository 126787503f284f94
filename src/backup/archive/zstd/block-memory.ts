/**
 * The memory of an archive's blocks, freed as soon as nothing needs it. Left to the collector, a large cell's worth of it
 * has the whole heap scanned again and again. Measured, a pool of used buffers is no faster than freeing them.
 */

/** What an incompressible block of the usual size takes. */
const USUAL_BYTES = 1_048_576 + 65_536
/** Smaller memory may be part of a pool of Node's that others use. */
const RELEASED_BYTES_MIN = 524_288

/** Memory of a block's plain bytes beyond them: zlib goes on when it is full. */
export const SPARE_BYTES = 64

/** Memory that belongs to one block alone. */
export function allocateBlock(bytes: number = USUAL_BYTES): Buffer {
  return Buffer.allocUnsafeSlow(bytes)
}

/** Room for `bytes`, with the first `used` of `block` in it. */
export function growBlock(block: Buffer, used: number, bytes: number): Buffer {
  if (bytes <= block.length) return block
  const larger = allocateBlock(Math.max(bytes, 2 * block.length))
  block.copy(larger, 0, 0, used)
  release(block)
  return larger
}

/** Frees the memory of bytes that nobody uses any longer, with everything beside them in the same memory. */
export function release({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= RELEASED_BYTES_MIN) buffer.transfer(0)
}

/** As {@link release}, if the bytes are all that is in their memory: they are the last of a member, and others may follow. */
export function releaseOwn(bytes: Buffer): void {
  if (bytes.buffer.byteLength - bytes.length <= SPARE_BYTES) release(bytes)
}
