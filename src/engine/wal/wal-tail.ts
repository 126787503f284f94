import fs from 'node:fs'
import type { ScratchMemory } from '../../base/machine/scratch-memory.ts'
import { PAGE_BYTES } from '../cell-settings.ts'
import {
  endsCommit,
  FRAME_BYTES,
  FRAME_HEADER_BYTES,
  parseWalHeader,
  WAL_HEADER_BYTES,
  walBytes,
} from './wal-file.ts'

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
   * @param memory for the bytes
   * @returns undefined if the WAL should be fsynced instead: it is long, or not as SQLite says
   */
  read(fd: number, frames: number, memory: ScratchMemory): TailOfWal | undefined {
    // Under other salts the WAL has begun again: SQLite, here or in another program, had moved all of it to the database.
    const isLikely = this.#safe !== undefined && frames > 0
    const continued = isLikely ? readAfter(fd, this.#safe as WalPlace, frames, memory) : undefined
    if (continued !== undefined) return continued
    const end = placeOf(fd, frames)
    if (end === undefined) return undefined
    const { salts } = end
    const offset = this.#safe?.salts.equals(salts) === true ? this.#safe.offset : 0
    if (end.offset <= offset || end.offset - offset > TAIL_BYTES_MAX) return undefined
    const bytes = memory.take(end.offset - offset)
    return readFully(fd, bytes, offset) ? { salts, offset, bytes } : undefined
  }

  /** All before this place is on disk; undefined: nobody knows. */
  setSafe(place: WalPlace | undefined): void {
    this.#safe = place
  }
}

/**
 * What most commits need: one read. All frames that SQLite counts have the salts of the header, so that those of the last one tell
 * whether the WAL is still the same.
 *
 * @returns undefined if it is not, or the tail is too long
 */
function readAfter(
  fd: number,
  { salts, offset }: WalPlace,
  frames: number,
  memory: ScratchMemory,
): TailOfWal | undefined {
  const length = walBytes(frames, PAGE_BYTES) - offset
  if (length < FRAME_BYTES || length > TAIL_BYTES_MAX) return undefined
  const bytes = memory.take(length)
  if (!readFully(fd, bytes, offset)) return undefined
  return endsCommit(bytes.subarray(length - FRAME_BYTES), salts) ? { salts, offset, bytes } : undefined
}

const head = Buffer.alloc(WAL_HEADER_BYTES)
const lastFrame = Buffer.alloc(FRAME_HEADER_BYTES)

/** The end of the last commit; undefined if there is none, or the WAL differs from what SQLite says of it. */
export function placeOf(fd: number, frames: number): WalPlace | undefined {
  if (frames === 0) return undefined
  const isRead = readFully(fd, head, 0) && readFully(fd, lastFrame, walBytes(frames - 1, PAGE_BYTES))
  if (!isRead || parseWalHeader(head)?.pageSize !== PAGE_BYTES) return undefined
  const salts = Buffer.from(head.subarray(16, 24))
  return endsCommit(lastFrame, salts) ? { salts, offset: walBytes(frames, PAGE_BYTES) } : undefined
}

function readFully(fd: number, into: Buffer, position: number): boolean {
  for (let at = 0; at < into.length; ) {
    const read = fs.readSync(fd, into, at, into.length - at, position + at)
    if (read === 0) return false
    at += read
  }
  return true
}
