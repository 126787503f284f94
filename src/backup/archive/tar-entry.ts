export const TAR_BLOCK_BYTES = 512

/** Zero blocks after the last entry. */
export const TAR_END_BYTES = 2 * TAR_BLOCK_BYTES

/** The longest size that the header has in octal digits. */
const OCTAL_SIZE_MAX = 0o77777777777

/** A tar entry's share of the archive: a header block, and the content in whole blocks. */
export function tarBytes(size: number): number {
  return TAR_BLOCK_BYTES + contentBytes(size)
}

/** Zeros after the content. */
export function tarPadding(size: number): number {
  return contentBytes(size) - size
}

/**
 * The header block of a file that its owner alone may read (POSIX 1003.1, pax, "ustar Interchange Format").
 *
 * @param name at most 100 bytes
 * @param mtimeMs epoch milliseconds
 */
export function tarHeader(name: string, size: number, mtimeMs: number): Buffer {
  const header = Buffer.alloc(TAR_BLOCK_BYTES)
  header.write(name, 0, 100)
  header.write('0000600\0', 100)
  for (const at of [108, 116]) header.write('0000000\0', at)
  if (size <= OCTAL_SIZE_MAX) header.write(octal(size, 11), 124)
  else {
    // As GNU tar and others have it: a binary number after a set bit.
    header.writeUInt8(0x80, 124)
    header.writeBigUInt64BE(BigInt(size), 128)
  }
  header.write(octal(Math.floor(mtimeMs / 1_000), 11), 136)
  header.write('        0', 148)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148)
  return header
}

function contentBytes(size: number): number {
  return Math.ceil(size / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0')
}
