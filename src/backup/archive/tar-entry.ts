export const TAR_BLOCK_BYTES = 512

/** A tar entry's share of the archive: a header block, and the content in whole blocks. */
export function tarBytes(size: number): number {
  return TAR_BLOCK_BYTES + Math.ceil(size / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES
}
