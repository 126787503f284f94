import fs from 'node:fs'
import { PAGE_BYTES } from './cell-settings.ts'
import { FRAME_HEADER_BYTES, parseWalHeader, WAL_HEADER_BYTES, walBytes } from './wal-file.ts'

/** More than this is not worth a copy: an fsync of the WAL costs less. */
const TAIL_BYTES_MAX = 262_144

/** What commits have added to a WAL. */
export interface TailOfWal {
  salts: Buffer
  offset: number
  bytes: Buffer
}

/** A place in one generation of a WAL. */
export interface WalPlace {
  salts: Buffer
  offset: number
}

/** Reads from a live WAL what may not be on disk: everything after the place up to which it is known to be safe. */
export class WalTail {
  /** All before this place is on disk, in the WAL or in the commit log. */
  #safe: WalPlace | undefined

  /**
   * @param fd the WAL
   * @param frames up to the last commit, as SQLite counts them
   * @returns undefined if the WAL should be fsynced instead: it is long, or not as SQLite says
   */
  read(fd: number, frames: number): TailOfWal | undefined {
    const end = placeOf(fd, frames)
    if (end === undefined) return undefined
    const { salts } = end
    // Under other salts the WAL has begun again: SQLite, here or in another program, had moved all of it to the database.
    const offset = this.#safe?.salts.equals(salts) === true ? this.#safe.offset : 0
    if (end.offset <= offset || end.offset - offset > TAIL_BYTES_MAX) return undefined
    const bytes = Buffer.allocUnsafe(end.offset - offset)
    return readFully(fd, bytes, offset) ? { salts, offset, bytes } : undefined
  }

  /** All before this place is on disk; undefined: nobody knows. */
  setSafe(place: WalPlace | undefined): void {
    this.#safe = place
  }
}

/** The end of the last commit; undefined if there is none, or the WAL differs from what SQLite says of it. */
export function placeOf(fd: number, frames: number): WalPlace | undefined {
  if (frames === 0) return undefined
  const head = Buffer.alloc(WAL_HEADER_BYTES)
  const frame = Buffer.alloc(FRAME_HEADER_BYTES)
  const isRead = readFully(fd, head, 0) && readFully(fd, frame, walBytes(frames - 1, PAGE_BYTES))
  if (!isRead || parseWalHeader(head)?.pageSize !== PAGE_BYTES) return undefined
  const salts = head.subarray(16, 24)
  const isCommit = frame.readUInt32BE(4) > 0 && frame.subarray(8, 16).equals(salts)
  return isCommit ? { salts, offset: walBytes(frames, PAGE_BYTES) } : undefined
}

function readFully(fd: number, into: Buffer, position: number): boolean {
  for (let at = 0; at < into.length; ) {
    const read = fs.readSync(fd, into, at, into.length - at, position + at)
    if (read === 0) return false
    at += read
  }
  return true
}
