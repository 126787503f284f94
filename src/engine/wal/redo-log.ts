import { type FileHandle, open } from 'node:fs/promises'
import { endianness } from 'node:os'
import { writeAll } from '../../base/files/write-all.ts'
import { FRAME_HEADER_BYTES, parseWalHeader, WAL_HEADER_BYTES, type WalHeader } from './wal-file.ts'

const CHUNK_BYTES = 1_048_576
/** Set in the magic number of a log whose checksums are over big-endian words. */
const BIG_ENDIAN_BIT = 1

/**
 * Writes the pages of a complete log to their places in a copy of the database file, as SQLite's checkpoint does. It proves
 * the log first, piece by piece: every frame has the log's salts, and the checksum that covers everything before it.
 *
 * Not SQLite itself, because between two logs of a copy that was made under writes the copy is no database yet: one page is
 * older than the log, and another is newer.
 *
 * @param log holds whole transactions, with this many frames
 * @returns the length of the database after the last transaction, in bytes
 * @throws `Error` if the log is damaged
 */
export async function redoLog(log: string, frames: number, database: FileHandle): Promise<number> {
  await using handle = await open(log, 'r')
  const head = await read(handle, WAL_HEADER_BYTES, 0)
  const header = parseWalHeader(head)
  if (header === undefined) throw damaged()
  const checksum = new LogChecksum(head)
  const frameBytes = FRAME_HEADER_BYTES + header.pageSize
  const framesPerChunk = Math.max(1, Math.floor(CHUNK_BYTES / frameBytes))
  let pages = 0
  for (let frame = 0; frame < frames; frame += framesPerChunk) {
    const count = Math.min(framesPerChunk, frames - frame)
    const chunk = await read(handle, count * frameBytes, WAL_HEADER_BYTES + frame * frameBytes)
    pages = proveFrames(chunk, header, checksum)
    await writePages(chunk, header.pageSize, database)
  }
  if (pages === 0) throw damaged()
  return pages * header.pageSize
}

/** @returns the pages of the database after the last of these frames, if that ends a transaction; otherwise 0 */
function proveFrames(chunk: Buffer, { pageSize, salts }: WalHeader, checksum: LogChecksum): number {
  let pages = 0
  for (let at = 0; at < chunk.length; at += FRAME_HEADER_BYTES + pageSize) {
    const page = at + FRAME_HEADER_BYTES
    checksum.add(chunk, at, at + 8)
    checksum.add(chunk, page, page + pageSize)
    const isOfLog = chunk.toString('hex', at + 8, at + 16) === salts && chunk.readUInt32BE(at) > 0
    if (!isOfLog || !checksum.equals(chunk, at + 16)) throw damaged()
    pages = chunk.readUInt32BE(at + 4)
  }
  return pages
}

/** Of several frames of a page the last one counts. Neighbours are written together. */
async function writePages(chunk: Buffer, pageSize: number, database: FileHandle): Promise<void> {
  const newest = new Map<number, Buffer>()
  for (let at = 0; at < chunk.length; at += FRAME_HEADER_BYTES + pageSize) {
    const page = at + FRAME_HEADER_BYTES
    newest.set(chunk.readUInt32BE(at), chunk.subarray(page, page + pageSize))
  }
  const numbers = [...newest.keys()].sort((a, b) => a - b)
  for (let i = 0; i < numbers.length; ) {
    const first = numbers[i] as number
    const run: Buffer[] = []
    while (numbers[i] === first + run.length) run.push(newest.get(numbers[i++] as number) as Buffer)
    await writeRun(database, run, (first - 1) * pageSize)
  }
}

async function writeRun(database: FileHandle, run: Buffer[], position: number): Promise<void> {
  const bytes = run.length === 1 ? (run[0] as Buffer) : Buffer.concat(run)
  await writeAll(database, bytes, position)
}

/** The checksum of sqlite.org/fileformat2, 4.2: two sums over all 32-bit words of the log so far, apart from the other half of each frame's header. */
class LogChecksum {
  readonly #swaps: boolean
  #first = 0
  #second = 0

  /** @param head the log's header. @throws `Error` if it is damaged */
  constructor(head: Buffer) {
    const isBigEndian = (head.readUInt32BE(0) & BIG_ENDIAN_BIT) !== 0
    this.#swaps = isBigEndian !== (endianness() === 'BE')
    this.add(head, 0, 24)
    if (!this.equals(head, 24)) throw damaged()
  }

  /** The bytes must begin at a multiple of four of their memory. */
  add(bytes: Buffer, from: number, to: number): void {
    const part = this.#swaps ? Buffer.from(bytes.subarray(from, to)).swap32() : bytes.subarray(from, to)
    const words = new Int32Array(part.buffer, part.byteOffset, part.length / 4)
    let first = this.#first
    let second = this.#second
    for (let i = 0; i < words.length; i += 2) {
      first = (first + (words[i] as number) + second) | 0
      second = (second + (words[i + 1] as number) + first) | 0
    }
    this.#first = first
    this.#second = second
  }

  equals(bytes: Buffer, at: number): boolean {
    return bytes.readInt32BE(at) === this.#first && bytes.readInt32BE(at + 4) === this.#second
  }
}

async function read(handle: FileHandle, length: number, position: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let at = 0; at < length; ) {
    const { bytesRead } = await handle.read(bytes, at, length - at, position + at)
    if (bytesRead === 0) throw damaged()
    at += bytesRead
  }
  return bytes
}

function damaged(): Error {
  return new Error('A kept log differs from what SQLite wrote.')
}
