import fs from 'node:fs'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { exists } from '../base/durable-files.ts'

/**
 * What is done to a cell's write-ahead log after the disk has failed, while SQLite has closed it. The log carries no locks:
 * opening and closing it is safe (invariant 4).
 */

const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
/** Where the header says how large a page is (sqlite.org/fileformat2, section 4.1). */
const PAGE_SIZE_AT = 8
const CHUNK_BYTES = 1_048_576

/**
 * Cuts off what lies behind the last commit: a transaction that was refused because its fsync failed may be there whole, and
 * the next one to open the file would take it for committed.
 *
 * @param frames how many frames hold commits
 */
export function cutWal(file: string, frames: number): void {
  const descriptor = fs.openSync(file, 'r+')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    if (fs.readSync(descriptor, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return
    const length = HEADER_BYTES + frames * (FRAME_HEADER_BYTES + header.readUInt32BE(PAGE_SIZE_AT))
    if (fs.fstatSync(descriptor).size > length) fs.ftruncateSync(descriptor, length)
  } finally {
    fs.closeSync(descriptor)
  }
}

/**
 * Writes a log's bytes once more, in place, and fsyncs them. An fsync that failed may have left pages that the system takes
 * for stored and so will never store: a later one that succeeds would acknowledge what stands behind them.
 *
 * @param goesOn asked before each write, and nothing is written once it is false: somebody else may use the file by then
 */
export async function rewriteWal(file: string, goesOn: () => boolean): Promise<void> {
  if (!exists(file)) return
  const descriptor = fs.openSync(file, 'r+')
  try {
    const chunk = Buffer.alloc(Math.min(fs.fstatSync(descriptor).size, CHUNK_BYTES))
    for (let at = 0; goesOn(); ) {
      const read = fs.readSync(descriptor, chunk, 0, chunk.length, at)
      if (read === 0) break
      let written = 0
      while (written < read) written += fs.writeSync(descriptor, chunk, written, read - written, at + written)
      at += read
      await turnOfTheLoop()
    }
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}
