/** What is shorter goes with the next collection of young objects, and costs less that way. */
const WORTH_BYTES = 16_384

/**
 * Gives the memory of bytes that nobody uses any more back at once. Left to V8, each few megabytes of such memory cost a collection of
 * the whole heap.
 *
 * @param bytes unusable afterwards; left as they are if they are a part of something larger
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < WORTH_BYTES || byteLength < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return
  buffer.transfer(0)
}
