import { corrupt } from '../backup-errors.ts'
import {
  type BlockSizes,
  checkEnd,
  SEEK_TABLE_ENTRY_BYTES,
  SEEK_TABLE_FOOTER_BYTES,
  SEEK_TABLE_HEADER_BYTES,
  SEEK_TABLE_MAGIC,
} from './seekable-zstd.ts'

/** A block of an archive, and where it is. */
export interface PlacedBlock extends BlockSizes {
  /** Where its compressed bytes begin in the archive. */
  offset: number
  /** Where its plain bytes begin in the tar. */
  start: number
}

/**
 * The blocks of an archive, from its last bytes.
 *
 * @param size of the whole archive
 * @returns undefined if the table is longer than the bytes
 * @throws `backup_corrupt` if the table does not describe an archive of this size
 */
export function decodeSeekTable(tail: Buffer, size: number): PlacedBlock[] | undefined {
  checkEnd(tail.subarray(-SEEK_TABLE_FOOTER_BYTES))
  const count = tail.readUInt32LE(tail.length - SEEK_TABLE_FOOTER_BYTES)
  const content = count * SEEK_TABLE_ENTRY_BYTES + SEEK_TABLE_FOOTER_BYTES
  const length = SEEK_TABLE_HEADER_BYTES + content
  if (length > size) throw mismatch()
  if (length > tail.length) return undefined
  const table = tail.subarray(-length)
  if (table.readUInt32LE(0) !== SEEK_TABLE_MAGIC || table.readUInt32LE(4) !== content) throw mismatch()
  const blocks: PlacedBlock[] = []
  let [offset, start] = [0, 0]
  for (let at = SEEK_TABLE_HEADER_BYTES; blocks.length < count; at += SEEK_TABLE_ENTRY_BYTES) {
    const [compressed, plain] = [table.readUInt32LE(at), table.readUInt32LE(at + 4)]
    blocks.push({ offset, start, compressed, plain })
    offset += compressed
    start += plain
  }
  if (offset + length !== size) throw mismatch()
  return blocks
}

function mismatch() {
  return corrupt('archive', 'its seek table does not match its size')
}
