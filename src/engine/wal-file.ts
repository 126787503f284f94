import fs from 'node:fs'
import { FILE_MODE } from '../base/durable-files.ts'

/** The write-ahead log's file format: sqlite.org/fileformat2, section 4. */
const WAL_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24

const MAGIC_MASK = 0xfffffffe
const MAGIC = 0x377f0682
const CHUNK_BYTES = 1_048_576

export interface WalHeader {
  pageSize: number
  /** Both salts in hexadecimal: they tell one generation of the log from the next. */
  salts: string
}

/** @returns undefined for what is not the head of a log */
export function parseWalHeader(head: Buffer): WalHeader | undefined {
  if (head.length < WAL_HEADER_BYTES || (head.readUInt32BE(0) & MAGIC_MASK) >>> 0 !== MAGIC) return undefined
  return { pageSize: head.readUInt32BE(8), salts: head.toString('hex', 16, 24) }
}

export function walBytes(frames: number, pageSize: number): number {
  return WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageSize)
}

/**
 * A live log, open for reading beside SQLite: its POSIX locks lie on the other two files (invariant 4). Every method
 * throws an `Error` if the log is not what SQLite says it is.
 */
export class WalReader implements Disposable {
  readonly header: WalHeader
  readonly #fd: number

  constructor(file: string) {
    // For writing too, since not every system lets a file that is only read be synced.
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
   * Copies the head of the log, up to a commit, into a new fsynced file.
   *
   * @param frames how many, as SQLite itself counts them
   */
  copy(to: string, frames: number): void {
    this.#checkCommit(frames)
    const target = fs.openSync(to, 'w', FILE_MODE)
    try {
      this.#copyBytes(target, 0, walBytes(frames, this.header.pageSize))
    } finally {
      fs.closeSync(target)
    }
  }

  /**
   * Adds the frames after the first `have` to a copy that holds those, and fsyncs it. The copy may have grown by part of
   * a frame, where this was interrupted before.
   */
  extend(copy: string, have: number, frames: number): void {
    const { pageSize } = this.header
    if (frames < have) throw new Error('The write-ahead log is shorter than the copy of its head.')
    this.#checkCommit(frames)
    const target = fs.openSync(copy, 'r+')
    try {
      // A frame's checksums cover all before it: where these are equal, so is everything up to there.
      const last = walBytes(have - 1, pageSize)
      const kept = readBytes(target, last, FRAME_HEADER_BYTES)
      if (!kept.equals(this.#read(last, FRAME_HEADER_BYTES))) {
        throw new Error('The write-ahead log was written anew under the salts that it had.')
      }
      this.#copyBytes(target, walBytes(have, pageSize), walBytes(frames, pageSize))
    } finally {
      fs.closeSync(target)
    }
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#fd)
  }

  /** The last frame must be of the log's own generation, and end a transaction. */
  #checkCommit(frames: number): void {
    const frame = this.#read(walBytes(frames - 1, this.header.pageSize), FRAME_HEADER_BYTES)
    if (frame.readUInt32BE(4) > 0 && frame.toString('hex', 8, 16) === this.header.salts) return
    throw new Error('The write-ahead log does not end in a commit of its own generation.')
  }

  #copyBytes(target: number, from: number, to: number): void {
    // In relaxed durability the log may be ahead of the disk. A copy must not be: after a power loss other frames would
    // follow, and the copy would be of a history that never was.
    fs.fsyncSync(this.#fd)
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, to - from))
    for (let at = from; at < to; ) {
      const read = fs.readSync(this.#fd, chunk, 0, Math.min(chunk.length, to - at), at)
      if (read === 0) throw new Error('The write-ahead log is shorter than SQLite says.')
      let written = 0
      while (written < read) written += fs.writeSync(target, chunk, written, read - written, at + written)
      at += read
    }
    fs.ftruncateSync(target, to)
    fs.fsyncSync(target)
  }

  #read(at: number, length: number): Buffer {
    return readBytes(this.#fd, at, length)
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
