import { corrupt } from '../backup-errors.ts'
import { allocateBlock, growBlock } from './block-memory.ts'

/** The blocks of a zstd stream: RFC 8878, 3.1. */

export const BLOCK_MAGIC = 0xfd2fb528
const SKIPPABLE_MAGIC = 0x184d2a50
/** Of a block (the RFC calls it a frame): magic number and descriptor; of a skippable one; of each block inside. */
const BLOCK_BEGINNING_BYTES = 5
const SKIPPABLE_HEADER_BYTES = 8
const BLOCK_HEADER_BYTES = 3

/**
 * Cuts a byte stream into whole blocks, each in memory of its own: release it once the block is no longer needed.
 *
 * @param bytesMax a longer block is refused
 * @throws `backup_corrupt`
 */
export async function* splitBlocks(
  source: AsyncIterable<Uint8Array>,
  bytesMax: number,
): AsyncGenerator<Buffer> {
  let walk = new BlockWalk()
  let block = allocateBlock()
  let length = 0
  for await (const chunk of source) {
    let bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    while (bytes.length > 0) {
      const end = walk.endIn(bytes)
      const piece = bytes.subarray(0, end)
      if (length + piece.length > bytesMax)
        throw corrupt('archive', 'a block is larger than any this version writes')
      block = growBlock(block, length, length + piece.length)
      // A copy: the source may use the chunk's memory again, and a block may come in many chunks.
      length += piece.copy(block, length)
      if (end === undefined) break
      yield block.subarray(0, length)
      walk = new BlockWalk()
      block = allocateBlock()
      length = 0
      bytes = bytes.subarray(end)
    }
  }
  if (length > 0) throw corrupt('archive', 'it ends within a block')
}

/** Where the first block of `bytes` ends; undefined if it is longer than they are. @throws `backup_corrupt` */
export function blockEnd(bytes: Buffer): number | undefined {
  return new BlockWalk().endIn(bytes)
}

/** Finds the end of one block, whose bytes may come in pieces of any size: each block inside says its length. */
class BlockWalk {
  /** The bytes of the next header so far: that of the block, then that of each block inside. */
  readonly #header = Buffer.alloc(SKIPPABLE_HEADER_BYTES)
  #have = 0
  #want = BLOCK_BEGINNING_BYTES
  #isBeginning = true
  #hasChecksum = false
  /** Bytes before the next header, or before the end. */
  #skip = 0
  #isLast = false

  /**
   * Walks through the block's next bytes.
   *
   * @returns where in them the block ends; undefined if it is longer
   * @throws `backup_corrupt` if they do not belong to a block
   */
  endIn(bytes: Buffer): number | undefined {
    let at = 0
    for (;;) {
      const skipped = Math.min(this.#skip, bytes.length - at)
      this.#skip -= skipped
      at += skipped
      if (this.#skip > 0) return undefined
      if (this.#isLast) return at
      const taken = bytes.copy(this.#header, this.#have, at, at + this.#want - this.#have)
      this.#have += taken
      at += taken
      if (this.#have < this.#want) return undefined
      if (this.#isBeginning) this.#begin()
      else this.#beginBlock()
    }
  }

  #begin(): void {
    const magic = this.#header.readUInt32LE(0)
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
      this.#isLast = this.#have === SKIPPABLE_HEADER_BYTES
      if (this.#isLast) this.#skip = this.#header.readUInt32LE(4)
      else this.#want = SKIPPABLE_HEADER_BYTES
      return
    }
    if (magic !== BLOCK_MAGIC) throw corrupt('archive', 'a part of it is not a zstd block')
    const descriptor = this.#header.readUInt8(4)
    this.#hasChecksum = (descriptor & 0x04) !== 0
    this.#skip = headerBytes(descriptor)
    this.#isBeginning = false
    this.#have = 0
    this.#want = BLOCK_HEADER_BYTES
  }

  #beginBlock(): void {
    const header = this.#header.readUIntLE(0, BLOCK_HEADER_BYTES)
    const type = (header >> 1) & 3
    if (type === 3) throw corrupt('archive', 'a block has a type that does not exist')
    this.#have = 0
    this.#isLast = (header & 1) === 1
    this.#skip = (type === 1 ? 1 : header >> 3) + (this.#isLast && this.#hasChecksum ? 4 : 0)
  }
}

/** The plain bytes of a block, as it says itself; undefined if it does not say. RFC 8878, 3.1.1.1.4. */
export function declaredBytes(block: Buffer): number | undefined {
  const descriptor = block.readUInt8(4)
  const size = contentSizeBytes(descriptor)
  const at = BLOCK_BEGINNING_BYTES + headerBytes(descriptor) - size
  if (size === 0 || block.length < at + size) return undefined
  if (size === 8) return Number(block.readBigUInt64LE(at))
  return block.readUIntLE(at, size) + (size === 2 ? 256 : 0)
}

/** RFC 8878, 3.1.1.1: window descriptor, dictionary id and content size, as the block header's descriptor says. */
function headerBytes(descriptor: number): number {
  const dictionaryId = [0, 1, 2, 4][descriptor & 3] as number
  return (isSingleSegment(descriptor) ? 0 : 1) + dictionaryId + contentSizeBytes(descriptor)
}

function contentSizeBytes(descriptor: number): number {
  const flag = descriptor >> 6
  if (flag > 0) return 1 << flag
  return isSingleSegment(descriptor) ? 1 : 0
}

function isSingleSegment(descriptor: number): boolean {
  return (descriptor & 0x20) !== 0
}
