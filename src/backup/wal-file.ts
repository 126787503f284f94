import fs from 'node:fs'
import { FILE_MODE } from '../engine/durable-files.ts'

/** The write-ahead log's file format: sqlite.org/fileformat2, section 4. */
export const WAL_HEADER_BYTES = 32
export const FRAME_HEADER_BYTES = 24

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
 * Copies the head of a live log, up to a commit, into a new fsynced file. Reading a log is safe beside SQLite: its POSIX
 * locks lie on the other two files (invariant 4).
 *
 * @param frames how many, as SQLite itself counts them
 * @throws an `Error` if the log is not what SQLite says it is; then nothing is left
 */
export function copyWal(from: string, to: string, frames: number): WalHeader {
  const source = fs.openSync(from, 'r')
  try {
    const head = Buffer.alloc(WAL_HEADER_BYTES)
    fs.readSync(source, head, 0, head.length, 0)
    const header = parseWalHeader(head)
    if (header === undefined) throw new Error('The write-ahead log has no header.')
    copyBytes(source, to, walBytes(frames, header.pageSize))
    checkLastFrame(to, frames, header)
    return header
  } finally {
    fs.closeSync(source)
  }
}

function copyBytes(source: number, to: string, length: number): void {
  const target = fs.openSync(to, 'w', FILE_MODE)
  try {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, length))
    for (let at = 0; at < length; ) {
      const read = fs.readSync(source, chunk, 0, Math.min(chunk.length, length - at), at)
      if (read === 0) throw new Error('The write-ahead log is shorter than SQLite says.')
      for (let written = 0; written < read; ) written += fs.writeSync(target, chunk, written, read - written)
      at += read
    }
    fs.fsyncSync(target)
  } catch (error) {
    fs.rmSync(to, { force: true })
    throw error
  } finally {
    fs.closeSync(target)
  }
}

/** The last frame must be of the same generation and end a transaction. */
function checkLastFrame(file: string, frames: number, { pageSize, salts }: WalHeader): void {
  const fd = fs.openSync(file, 'r')
  try {
    const frame = Buffer.alloc(FRAME_HEADER_BYTES)
    fs.readSync(fd, frame, 0, frame.length, walBytes(frames - 1, pageSize))
    const endsTransaction = frame.readUInt32BE(4) > 0
    if (endsTransaction && frame.toString('hex', 8, 16) === salts) return
  } finally {
    fs.closeSync(fd)
  }
  fs.rmSync(file, { force: true })
  throw new Error('The write-ahead log does not end in a commit of its own generation.')
}
