import zlib from 'node:zlib'
import { FrameMemory } from './buffer-pool.ts'
import { damagedArchive, FRAME_MAGIC, frameEnd, splitFrames } from './zstd-blocks.ts'

/**
 * zstd in the standard seekable layout: independent frames, then a seek table in a skippable frame. Any zstd tool reads
 * it as one stream; several frames can be worked on side by side; a frame never needs more memory than FRAME_BYTES.
 * Layout: zstd's contrib/seekable_format, "Seek_Table", and RFC 8878 for the frames. Node's own stream decoder stops
 * without a word after the first frame, so frames are split first (zstd-frames.ts).
 */

/** Plain bytes in a frame. */
export const FRAME_BYTES = 4 * 1_024 * 1_024

/** A chunk of this size is a frame by itself. */
const OWN_FRAME_BYTES = 524_288
/** Incompressible bytes come out a little longer; a seek table this long is of a million frames. */
const COMPRESSED_BYTES_MAX = 2 * FRAME_BYTES
/** What most frames hold, and what is reserved for what comes out of one. */
const USUAL_FRAME_BYTES = 1_048_576

/** Frames that are compressed at once, and that are decompressed. */
const PARALLEL_FRAMES = 2
const PARALLEL_DECOMPRESSIONS = 4
const LEVEL = 1

const SEEK_TABLE_MAGIC = 0x184d2a5e
const SEEKABLE_MAGIC = 0x8f92eab1
export const SEEK_TABLE_FOOTER_BYTES = 9
const SEEK_TABLE_ENTRY_BYTES = 8

interface FrameSizes {
  compressed: number
  plain: number
}

/** Compresses what is pushed and hands the finished bytes on, in order. */
export class SeekableCompressor {
  readonly #write: (bytes: Buffer) => Promise<void>
  readonly #frames: FrameSizes[] = []
  readonly #inFlight: Promise<Buffer>[] = []
  #chunks: Uint8Array[] = []
  #length = 0

  constructor(write: (bytes: Buffer) => Promise<void>) {
    this.#write = write
  }

  /**
   * Adds plain bytes. A chunk that fills a good part of a frame becomes one as it is, since joining chunks costs a copy.
   *
   * @param done called once the bytes are no longer needed
   */
  async push(chunk: Uint8Array, done: () => void = () => {}): Promise<void> {
    if (chunk.length >= OWN_FRAME_BYTES && chunk.length <= FRAME_BYTES) {
      await this.endFrame()
      await this.#compress(chunk, done)
      return
    }
    await this.#join(chunk)
    done()
  }

  async #join(chunk: Uint8Array): Promise<void> {
    let rest = chunk
    while (this.#length + rest.length >= FRAME_BYTES) {
      const take = FRAME_BYTES - this.#length
      this.#chunks.push(Uint8Array.prototype.slice.call(rest, 0, take))
      this.#length += take
      rest = rest.subarray(take)
      await this.endFrame()
    }
    // A copy: whoever pushed the bytes may use their memory again.
    if (rest.length > 0) this.#chunks.push(Uint8Array.prototype.slice.call(rest))
    this.#length += rest.length
  }

  /** Closes the frame here, so that what comes next can be read without what came before. */
  async endFrame(): Promise<void> {
    if (this.#length === 0) return
    const plain =
      this.#chunks.length === 1 ? (this.#chunks[0] as Uint8Array) : Buffer.concat(this.#chunks, this.#length)
    this.#chunks = []
    this.#length = 0
    await this.#compress(plain)
  }

  async finish(): Promise<void> {
    await this.endFrame()
    while (this.#inFlight.length > 0) await this.#drainOne()
    await this.#write(encodeSeekTable(this.#frames))
  }

  async #compress(plain: Uint8Array, done: () => void = () => {}): Promise<void> {
    if (this.#inFlight.length >= PARALLEL_FRAMES) await this.#drainOne()
    const compressed = compressFrame(plain).finally(done)
    // Awaited in order later; until then a failure must not count as unhandled.
    compressed.catch(() => {})
    this.#frames.push({ compressed: 0, plain: plain.length })
    this.#inFlight.push(compressed)
  }

  async #drainOne(): Promise<void> {
    const index = this.#frames.length - this.#inFlight.length
    const bytes = await (this.#inFlight.shift() as Promise<Buffer>)
    ;(this.#frames[index] as FrameSizes).compressed = bytes.length
    await this.#write(bytes)
  }
}

/**
 * One frame of all the bytes. Told at once that they are all (`flush`), zstd works on them where they lie, and writes into
 * memory that is the caller's alone: Node's own `zstdCompress` tells it so afterwards, which has them copied before, and
 * leaves garbage of twice their size.
 */
function compressFrame(plain: Uint8Array): Promise<Buffer> {
  const params = {
    [zlib.constants.ZSTD_c_compressionLevel]: LEVEL,
    [zlib.constants.ZSTD_c_checksumFlag]: 1,
  }
  // Room for all that can come out: each further piece would be a round trip between threads, and a copy.
  const chunkSize = Math.ceil(plain.length + plain.length / 128 + 1_024)
  const flush = zlib.constants.ZSTD_e_end
  return new Promise((resolve, reject) => {
    const stream = zlib.createZstdCompress({ params, chunkSize, flush, pledgedSrcSize: plain.length })
    let frame: Buffer = Buffer.alloc(0)
    stream.on('error', reject)
    stream.on('data', (piece: Buffer) => {
      frame = frame.length === 0 ? piece : Buffer.concat([frame, piece])
      if (frameEnd(frame) !== frame.length) return
      resolve(frame)
      // Else the end of the stream would come as an empty frame.
      stream.destroy()
    })
    stream.end(plain)
  })
}

function encodeSeekTable(frames: readonly FrameSizes[]): Buffer {
  const content = frames.length * SEEK_TABLE_ENTRY_BYTES + SEEK_TABLE_FOOTER_BYTES
  const table = Buffer.alloc(8 + content)
  let at = table.writeUInt32LE(SEEK_TABLE_MAGIC, 0)
  at = table.writeUInt32LE(content, at)
  for (const { compressed, plain } of frames) {
    at = table.writeUInt32LE(compressed, at)
    at = table.writeUInt32LE(plain, at)
  }
  at = table.writeUInt32LE(frames.length, at)
  at = table.writeUInt8(0, at)
  table.writeUInt32LE(SEEKABLE_MAGIC, at)
  return table
}

/**
 * The plain bytes of a seekable archive, frame by frame. Ends only after the seek table, and only if that agrees with
 * every frame before it: an archive that was cut at a frame's edge does not pass for a shorter one.
 *
 * @throws `backup_corrupt`
 */
export async function* decompressSeekable(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const frames: FrameSizes[] = []
  const inFlight: { compressed: number; plain: Promise<Buffer> }[] = []
  const memory = new FrameMemory()
  let seekTable: Buffer | undefined

  async function drainOne(): Promise<Buffer> {
    const next = inFlight.shift() as (typeof inFlight)[number]
    const plain = await next.plain
    frames.push({ compressed: next.compressed, plain: plain.length })
    return plain
  }

  for await (const frame of splitFrames(source, COMPRESSED_BYTES_MAX, memory)) {
    if (seekTable !== undefined) throw damagedArchive('bytes follow the seek table')
    if (frame.readUInt32LE(0) === FRAME_MAGIC) {
      if (inFlight.length >= PARALLEL_DECOMPRESSIONS) yield await drainOne()
      const plain = decompressFrame(frame).finally(() => memory.give(frame))
      plain.catch(() => {})
      inFlight.push({ compressed: frame.length, plain })
    } else seekTable = frame
  }
  while (inFlight.length > 0) yield await drainOne()
  if (seekTable === undefined) throw damagedArchive('it ends before its seek table')
  if (!seekTable.equals(encodeSeekTable(frames)))
    throw damagedArchive('its seek table does not match its frames')
}

/**
 * The plain bytes of the first frame alone, from the first bytes of an archive.
 *
 * @returns undefined if the frame goes on behind them
 * @throws `backup_corrupt`
 */
export async function decompressFirstFrame(head: Buffer): Promise<Buffer | undefined> {
  const end = frameEnd(head)
  return end === undefined ? undefined : await decompressFrame(head.subarray(0, end))
}

/** @param footer the last bytes of an archive. @throws `backup_corrupt` if they do not end a seek table */
export function checkEnd(footer: Buffer): void {
  const isFooter = footer.length === SEEK_TABLE_FOOTER_BYTES
  if (!isFooter || footer.readUInt32LE(SEEK_TABLE_FOOTER_BYTES - 4) !== SEEKABLE_MAGIC) {
    throw damagedArchive('it does not end in a seek table')
  }
}

function decompressFrame(frame: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { maxOutputLength: FRAME_BYTES, chunkSize: USUAL_FRAME_BYTES + 64 }
    zlib.zstdDecompress(frame, options, (error, plain) => {
      if (error) reject(damagedArchive('a compressed frame is damaged', error))
      else resolve(plain)
    })
  })
}
