import zlib from 'node:zlib'
import { corrupt } from '../backup-errors.ts'
import { release, SPARE_BYTES } from './block-memory.ts'
import { BLOCK_MAGIC, blockEnd, declaredBytes, splitBlocks } from './zstd-blocks.ts'

/**
 * zstd in the standard seekable layout: independent blocks, then a seek table in a skippable block. Any zstd tool reads
 * it as one stream; several blocks can be processed in parallel; a block never needs more memory than BLOCK_BYTES.
 * Layout: zstd's contrib/seekable_format, "Seek_Table", and RFC 8878 for the blocks. Node's own stream decoder stops
 * silently after the first block, so blocks are split first (zstd-blocks.ts).
 */

/** Plain bytes in a block. */
export const BLOCK_BYTES = 4 * 1_024 * 1_024

/** A chunk of at least this size becomes one block. */
const OWN_BLOCK_BYTES = 524_288
/** Incompressible bytes come out a little longer; a seek table of this length has a million blocks. */
const COMPRESSED_BYTES_MAX = 2 * BLOCK_BYTES
/** The plain size of most blocks, for which memory is reserved. */
const USUAL_BLOCK_BYTES = 1_048_576

/** How many blocks are compressed in parallel, and how many are decompressed. */
const PARALLEL_BLOCKS = 2
const PARALLEL_DECOMPRESSIONS = 4
const LEVEL = 1

const SEEK_TABLE_MAGIC = 0x184d2a5e
const SEEKABLE_MAGIC = 0x8f92eab1
export const SEEK_TABLE_FOOTER_BYTES = 9
const SEEK_TABLE_ENTRY_BYTES = 8
/** Before the table's entries: its magic, and how many bytes follow. */
const SEEK_TABLE_HEADER_BYTES = 8

export interface BlockSizes {
  compressed: number
  plain: number
}

/** Compresses what is pushed and hands the finished bytes on, in order. */
export class SeekableCompressor {
  readonly #write: (bytes: Buffer) => Promise<void>
  readonly #blocks: BlockSizes[] = []
  readonly #inFlight: Promise<Buffer>[] = []
  #chunks: Uint8Array[] = []
  #length = 0

  constructor(write: (bytes: Buffer) => Promise<void>) {
    this.#write = write
  }

  /**
   * Adds plain bytes. A large chunk becomes a block without a copy; smaller ones are joined, which costs one.
   *
   * @param done called once the bytes are no longer needed
   */
  async push(chunk: Uint8Array, done: () => void = () => {}): Promise<void> {
    if (chunk.length >= OWN_BLOCK_BYTES && chunk.length <= BLOCK_BYTES) {
      await this.endBlock()
      await this.#compress(chunk, done)
      return
    }
    await this.#join(chunk)
    done()
  }

  async #join(chunk: Uint8Array): Promise<void> {
    let rest = chunk
    while (this.#length + rest.length >= BLOCK_BYTES) {
      const take = BLOCK_BYTES - this.#length
      this.#chunks.push(Uint8Array.prototype.slice.call(rest, 0, take))
      this.#length += take
      rest = rest.subarray(take)
      await this.endBlock()
    }
    // A copy: the caller may use the memory of its bytes again.
    if (rest.length > 0) this.#chunks.push(Uint8Array.prototype.slice.call(rest))
    this.#length += rest.length
  }

  /** Ends the block here, so that what follows can be read without what came before. */
  async endBlock(): Promise<void> {
    if (this.#length === 0) return
    const plain =
      this.#chunks.length === 1 ? (this.#chunks[0] as Uint8Array) : Buffer.concat(this.#chunks, this.#length)
    this.#chunks = []
    this.#length = 0
    await this.#compress(plain)
  }

  async finish(): Promise<void> {
    await this.endBlock()
    while (this.#inFlight.length > 0) await this.#drainOne()
    await this.#write(encodeSeekTable(this.#blocks))
  }

  async #compress(plain: Uint8Array, done: () => void = () => {}): Promise<void> {
    if (this.#inFlight.length >= PARALLEL_BLOCKS) await this.#drainOne()
    const compressed = compressBlock(plain).finally(done)
    // Awaited in order later; until then a failure must not count as unhandled.
    compressed.catch(() => {})
    this.#blocks.push({ compressed: 0, plain: plain.length })
    this.#inFlight.push(compressed)
  }

  async #drainOne(): Promise<void> {
    const index = this.#blocks.length - this.#inFlight.length
    const bytes = await (this.#inFlight.shift() as Promise<Buffer>)
    ;(this.#blocks[index] as BlockSizes).compressed = bytes.length
    await this.#write(bytes)
  }
}

/**
 * Compresses all the bytes into one block. With `flush` set from the start, zstd reads them in place and writes into memory
 * that belongs to the caller alone. Node's own `zstdCompress` sets it only afterwards, which copies the bytes first and leaves
 * garbage of twice their size.
 */
export function compressBlock(plain: Uint8Array): Promise<Buffer> {
  const params = {
    [zlib.constants.ZSTD_c_compressionLevel]: LEVEL,
    [zlib.constants.ZSTD_c_checksumFlag]: 1,
  }
  // Room for the longest result: each further piece would cost a round trip between threads and a copy.
  const chunkSize = Math.ceil(plain.length + plain.length / 128 + 1_024)
  const flush = zlib.constants.ZSTD_e_end
  return new Promise((resolve, reject) => {
    const stream = zlib.createZstdCompress({ params, chunkSize, flush, pledgedSrcSize: plain.length })
    let block: Buffer = Buffer.alloc(0)
    stream.on('error', reject)
    stream.on('data', (piece: Buffer) => {
      block = block.length === 0 ? piece : Buffer.concat([block, piece])
      if (blockEnd(block) !== block.length) return
      resolve(block)
      // Otherwise the end of the stream would add an empty block.
      stream.destroy()
    })
    stream.end(plain)
  })
}

export function encodeSeekTable(blocks: readonly BlockSizes[]): Buffer {
  const content = blocks.length * SEEK_TABLE_ENTRY_BYTES + SEEK_TABLE_FOOTER_BYTES
  const table = Buffer.alloc(SEEK_TABLE_HEADER_BYTES + content)
  let at = table.writeUInt32LE(SEEK_TABLE_MAGIC, 0)
  at = table.writeUInt32LE(content, at)
  for (const { compressed, plain } of blocks) {
    at = table.writeUInt32LE(compressed, at)
    at = table.writeUInt32LE(plain, at)
  }
  at = table.writeUInt32LE(blocks.length, at)
  at = table.writeUInt8(0, at)
  table.writeUInt32LE(SEEKABLE_MAGIC, at)
  return table
}

/** How a part of an archive that did not come whole is fetched again. */
export interface Refetch {
  /** @param at the first byte of that part @returns whether to fetch it again; resolves when it is time to */
  allow(error: unknown, at: number): Promise<boolean>
  /** The archive from a byte of it to its end. */
  from(at: number): AsyncIterable<Uint8Array>
}

/**
 * The plain bytes of a seekable archive, block by block. Ends only after the seek table, and only if that agrees with
 * every block before it: an archive that was cut at the end of a block does not pass for a shorter one.
 *
 * @param refetch goes on after the last whole block when the source breaks off, or sends what does not prove itself
 * @throws `backup_corrupt`; what the source throws
 */
export async function* decompressSeekable(
  source: AsyncIterable<Uint8Array>,
  refetch?: Refetch,
): AsyncGenerator<Buffer> {
  const blocks: BlockSizes[] = []
  for (let from = source; ; ) {
    try {
      yield* decompressFrom(from, blocks)
      return
    } catch (error) {
      const at = blocks.reduce((sum, { compressed }) => sum + compressed, 0)
      if (refetch === undefined || !(await refetch.allow(error, at))) throw error
      from = refetch.from(at)
    }
  }
}

/** @param blocks those before; each that is yielded is added */
async function* decompressFrom(
  source: AsyncIterable<Uint8Array>,
  blocks: BlockSizes[],
): AsyncGenerator<Buffer> {
  const inFlight: { compressed: number; plain: Promise<Buffer> }[] = []
  let seekTable: Buffer | undefined

  async function drainOne(): Promise<Buffer> {
    const next = inFlight.shift() as (typeof inFlight)[number]
    const plain = await next.plain
    blocks.push({ compressed: next.compressed, plain: plain.length })
    return plain
  }

  for await (const block of splitBlocks(source, COMPRESSED_BYTES_MAX)) {
    if (seekTable !== undefined) throw corrupt('archive', 'bytes follow the seek table')
    if (block.readUInt32LE(0) === BLOCK_MAGIC) {
      if (inFlight.length >= PARALLEL_DECOMPRESSIONS) yield await drainOne()
      const plain = decompressBlock(block).finally(() => release(block))
      plain.catch(() => {})
      inFlight.push({ compressed: block.length, plain })
    } else seekTable = block
  }
  while (inFlight.length > 0) yield await drainOne()
  if (seekTable === undefined) throw corrupt('archive', 'it ends before its seek table')
  if (!seekTable.equals(encodeSeekTable(blocks)))
    throw corrupt('archive', 'its seek table does not match its blocks')
}

/** As {@link decompressSeekable}, of a whole archive in memory: on this thread, with no more than one block at a time. */
export function* decompressWhole(archive: Buffer): Generator<Buffer> {
  const blocks: BlockSizes[] = []
  for (let at = 0; at < archive.length; ) {
    const end = blockEnd(archive.subarray(at))
    if (end === undefined) throw corrupt('archive', 'it ends within a block')
    const block = archive.subarray(at, at + end)
    at += end
    if (block.readUInt32LE(0) === BLOCK_MAGIC) {
      const plain = decompressBlockHere(block)
      blocks.push({ compressed: block.length, plain: plain.length })
      yield plain
    } else if (at < archive.length) throw corrupt('archive', 'bytes follow the seek table')
    else if (block.equals(encodeSeekTable(blocks))) return
    else throw corrupt('archive', 'its seek table does not match its blocks')
  }
  throw corrupt('archive', 'it ends before its seek table')
}

/**
 * The plain bytes of the first block alone, from the first bytes of an archive.
 *
 * @returns undefined if the block is longer than they are
 * @throws `backup_corrupt`
 */
export async function decompressFirstBlock(head: Buffer): Promise<Buffer | undefined> {
  const end = blockEnd(head)
  return end === undefined ? undefined : await decompressBlock(head.subarray(0, end))
}

/** @param footer the last bytes of an archive. @throws `backup_corrupt` if they do not end a seek table */
export function checkEnd(footer: Buffer): void {
  const isFooter = footer.length === SEEK_TABLE_FOOTER_BYTES
  if (!isFooter || footer.readUInt32LE(SEEK_TABLE_FOOTER_BYTES - 4) !== SEEKABLE_MAGIC) {
    throw corrupt('archive', 'it does not end in a seek table')
  }
}

/**
 * Memory for the plain bytes is allocated before the first comes: no more than they need, or each small block leaves a megabyte
 * to the collector.
 */
function decompression(block: Buffer) {
  const plain = Math.min(declaredBytes(block) ?? USUAL_BLOCK_BYTES, BLOCK_BYTES)
  return { maxOutputLength: BLOCK_BYTES, chunkSize: plain + SPARE_BYTES }
}

/** @throws `backup_corrupt` */
export function decompressBlock(block: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    zlib.zstdDecompress(block, decompression(block), (error, plain) => {
      if (error) reject(damagedBlock(error))
      else resolve(plain)
    })
  })
}

function decompressBlockHere(block: Buffer): Buffer {
  try {
    return zlib.zstdDecompressSync(block, decompression(block))
  } catch (error) {
    throw damagedBlock(error)
  }
}

function damagedBlock(error: unknown) {
  return corrupt('archive', 'a compressed block is damaged', error)
}

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
