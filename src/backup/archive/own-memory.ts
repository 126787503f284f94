/** Smaller memory may be part of a pool that others use. */
const OWN_MEMORY_BYTES = 524_288

/**
 * Frees the memory of bytes that nobody uses any longer, nor anything beside them in the same memory. Left to the
 * collector, a large cell's worth of it has the whole heap looked through again and again.
 */
export function release({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= OWN_MEMORY_BYTES) buffer.transfer(0)
}
