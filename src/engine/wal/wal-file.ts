import fs from 'node:fs'
import { turnOfTheLoop } from '../../base/clock.ts'
import { exists, FILE_MODE, SYNC_EVERY_BYTES } from '../../base/files/durable-files.ts'
import { writeAllSync } from '../../base/files/write-all.ts'
import { PAGE_BYTES } from '../cell-settings.ts'

/** The format of SQLite's write-ahead log: sqlite.org/fileformat2, section 4. The file carries no locks (invariant 4). */
export const WAL_HEADER_BYTES = 32
export const FRAME_HEADER_BYTES = 24
/** Of a cell's WAL. */
export const FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES

const MAGIC_MASK = 0xfffffffe
const MAGIC = 0x377f0682
const CHUNK_BYTES = 1_048_576

export interface WalHeader {
  pageSize: number
  /** Both salts in hexadecimal: they tell one generation of the log from the next. */
  salts: string
}

/** @returns undefined for bytes that are not the head of a log */
export function parseWalHeader(head: Buffer): WalHeader | undefined {
  if (head.length < WAL_HEADER_BYTES || (head.readUInt32BE(0) & MAGIC_MASK) >>> 0 !== MAGIC) return undefined
  return { pageSize: head.readUInt32BE(8), salts: head.toString('hex', 16, 24) }
}

/** The length of a log with this many frames. */
export function walBytes(frames: number, pageSize: number): number {
  return WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageSize)
}

/** How many frames a log of this length has. */
export function framesOf(bytes: number): number {
  return Math.floor((bytes - WAL_HEADER_BYTES) / FRAME_BYTES)
}

/** @param frame or its header alone */
export function endsCommit(frame: Buffer, salts: Buffer): boolean {
  return frame.readUInt32BE(4) > 0 && hasSalts(frame, salts)
}

/** @param frame or its header alone */
export function hasSalts(frame: Buffer, salts: Buffer): boolean {
  return frame.compare(salts, 0, salts.length, 8, 16) === 0
}

/**
 * Reads a live log while SQLite uses it: SQLite's POSIX locks are on the other two files (invariant 4). Every method
 * throws an `Error` if the log does not match what SQLite says of it.
 */
export class WalReader implements Disposable {
  readonly header: WalHeader
  readonly #fd: number

  constructor(file: string) {
    // Also for writing: some systems refuse an fsync of a file that is open only for reading.
    this.#fd = fs.openSync(file, 'r+')
    try {
      const header = parseWalHeader(this.#read(0, WAL_HEADER_BYTES))
      if (header === undefined) throw new Error('The write-ahead log has no header.')
      this.header = header
    } catch (error) {
      fs.closeSync(this.#fd)
      throw error
    }
  }

  /**
   * Copies the head of the log, up to a commit, into a new file, and fsyncs that.
   *
   * @param frames as SQLite counts them
   * @param after so many of them the copy need not have: a hole takes their place
   */
  copy(to: string, frames: number, after = 0): void {
    this.#checkCommit(frames)
    const { pageSize } = this.header
    const target = fs.openSync(to, 'w', FILE_MODE)
    try {
      if (after > 0) writeAllSync(target, this.#read(0, WAL_HEADER_BYTES), 0)
      this.#copyBytes(target, after > 0 ? walBytes(after, pageSize) : 0, walBytes(frames, pageSize))
    } finally {
      fs.closeSync(target)
    }
  }

  /**
   * Appends the frames after the first `have` to a copy that has those, and fsyncs it. The copy may end in part of a
   * frame, if an earlier call was interrupted.
   */
  extend(copy: string, have: number, frames: number): void {
    const { pageSize } = this.header
    if (frames < have) throw new Error('The write-ahead log is shorter than the copy of its head.')
    this.#checkCommit(frames)
    const target = fs.openSync(copy, 'r+')
    try {
      // A frame's checksums cover all frames before it: if they are equal, so is everything up to there.
      const last = walBytes(have - 1, pageSize)
      const kept = readBytes(target, last, FRAME_HEADER_BYTES)
      if (!kept.equals(this.#read(last, FRAME_HEADER_BYTES))) {
        throw new Error('The write-ahead log was overwritten under the same salts.')
      }
      this.#copyBytes(target, walBytes(have, pageSize), walBytes(frames, pageSize))
    } finally {
      fs.closeSync(target)
    }
  }

  /** How many frames there were before the commit that ends at so many. */
  framesBefore(frames: number): number {
    const { pageSize } = this.header
    for (let before = frames - 1; before > 0; before--) {
      const pages = this.#read(walBytes(before - 1, pageSize) + 4, 4).readUInt32BE(0)
      // Only the last frame of a commit says how large the database is.
      if (pages > 0) return before
    }
    return 0
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#fd)
  }

  /** The last frame must have the salts of the log, and end a transaction. */
  #checkCommit(frames: number): void {
    const frame = this.#read(walBytes(frames - 1, this.header.pageSize), FRAME_HEADER_BYTES)
    if (frame.readUInt32BE(4) > 0 && frame.toString('hex', 8, 16) === this.header.salts) return
    throw new Error('The write-ahead log does not end in a commit with its own salts.')
  }

  #copyBytes(target: number, from: number, to: number): void {
    // With relaxed durability the log may be ahead of the disk. A copy must not be: after a power loss the log goes on
    // with other frames, and the copy would hold a history that never happened.
    fs.fsyncSync(this.#fd)
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, to - from))
    let synced = from
    for (let at = from; at < to; ) {
      const read = fs.readSync(this.#fd, chunk, 0, Math.min(chunk.length, to - at), at)
      if (read === 0) throw new Error('The write-ahead log is shorter than SQLite says.')
      writeAllSync(target, chunk.subarray(0, read), at)
      at += read
      if (at - synced < SYNC_EVERY_BYTES) continue
      fs.fdatasyncSync(target)
      synced = at
    }
    fs.ftruncateSync(target, to)
    fs.fsyncSync(target)
  }

  #read(at: number, length: number): Buffer {
    return readBytes(this.#fd, at, length)
  }
}

/**
 * Cuts off what follows the last commit, once SQLite has closed the log of a cell whose disk failed: a transaction that
 * was refused because its fsync failed may be there in full, and the next connection would take it for committed.
 *
 * @param frames how many hold commits
 */
export function cutWal(file: string, frames: number): void {
  const fd = fs.openSync(file, 'r+')
  try {
    const head = Buffer.alloc(WAL_HEADER_BYTES)
    fs.readSync(fd, head, 0, WAL_HEADER_BYTES, 0)
    const header = parseWalHeader(head)
    if (header === undefined) return
    const length = walBytes(frames, header.pageSize)
    if (fs.fstatSync(fd).size > length) fs.ftruncateSync(fd, length)
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * Writes a closed log's bytes once more, in place, and fsyncs them. After a failed fsync the system may take pages for
 * stored that it never stored: a later fsync that succeeds would prove nothing about them.
 *
 * @param goesOn asked before each write; once it is false, another part may use the file, and nothing more is written
 */
export async function rewriteWal(file: string, goesOn: () => boolean): Promise<void> {
  if (!exists(file)) return
  const fd = fs.openSync(file, 'r+')
  try {
    const chunk = Buffer.alloc(Math.min(fs.fstatSync(fd).size, CHUNK_BYTES))
    for (let at = 0; goesOn(); ) {
      const read = fs.readSync(fd, chunk, 0, chunk.length, at)
      if (read === 0) break
      writeAllSync(fd, chunk.subarray(0, read), at)
      at += read
      await turnOfTheLoop()
    }
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

function readBytes(fd: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  let read = 0
  while (read < length) {
    const more = fs.readSync(fd, bytes, read, length - read, at + read)
    if (more === 0) throw new Error('The write-ahead log is shorter than SQLite says.')
    read += more
  }
  return bytes
}
