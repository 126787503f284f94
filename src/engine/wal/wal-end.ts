import fs from 'node:fs'
import { PAGE_BYTES } from '../cell-settings.ts'
import {
  endsCommit,
  FRAME_BYTES,
  FRAME_HEADER_BYTES,
  hasSalts,
  parseWalHeader,
  WAL_HEADER_BYTES,
  walBytes,
} from './wal-file.ts'

/** Where a WAL ends: with its newest commit. */
export interface WalEnd {
  /** Of the WAL's header, in hexadecimal; empty without one. */
  salts: string
  /** Up to the newest commit. */
  frames: number
}

export const NO_WAL: WalEnd = { salts: '', frames: 0 }

/**
 * Whether anything was committed between the two, if nothing was moved into the database meanwhile except before a commit began.
 * Under the same salts each commit adds frames. SQLite takes new salts with the first frame that it writes after all others
 * were moved: then all that the WAL holds has come since.
 */
export function hasCommitBetween(before: WalEnd, after: WalEnd): boolean {
  return after.salts === before.salts ? after.frames > before.frames : after.frames > 0
}

const head = Buffer.alloc(WAL_HEADER_BYTES)
/** A frame, and the header of the one after it. */
const end = Buffer.alloc(FRAME_BYTES + FRAME_HEADER_BYTES)

/**
 * @param fd the WAL; it carries no locks (invariant 4)
 * @param known frames after the newest commit of this process, if they were counted
 * @param count asks SQLite for the frames up to the newest commit, which costs more than to look whether the WAL ends there
 * @throws the system's error
 */
export function readWalEnd(fd: number, known: number | undefined, count: () => number): WalEnd {
  const bytes = fs.readSync(fd, head, 0, WAL_HEADER_BYTES, 0)
  const salts = parseWalHeader(head.subarray(0, bytes))?.salts ?? ''
  const isKnown = known !== undefined && known > 0 && endsThere(fd, known)
  return { salts, frames: isKnown ? known : count() }
}

/** Whether so many frames are of this WAL, the last one ends a commit, and none follows: another program may have written here, too. */
function endsThere(fd: number, frames: number): boolean {
  const bytes = fs.readSync(fd, end, 0, end.length, walBytes(frames - 1, PAGE_BYTES))
  const salts = head.subarray(16, 24)
  if (bytes < FRAME_BYTES || !endsCommit(end, salts)) return false
  return bytes < end.length || !hasSalts(end.subarray(FRAME_BYTES), salts)
}
