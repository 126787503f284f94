/** What is shorter goes with the next collection of young objects, and costs less that way. */
const WORTH_BYTES = 16_384

/**
 * Gives the memory of bytes that nobody uses any more back at once. Left to V8, every few megabytes of such memory cost a collection of
 * the whole heap. For the memory of an archive's blocks see `backup/archive/block-memory.ts`.
 *
 * @param bytes unusable afterwards; left as they are if they are short, a part of something larger, or shared by threads
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < WORTH_BYTES || byteLength < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return
  buffer.transfer(0)
}
