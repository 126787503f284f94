import fs from 'node:fs'
import { parseWalHeader, WAL_HEADER_BYTES } from './wal-file.ts'

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

/**
 * @param wal its path, or a descriptor of it; it carries no locks (invariant 4)
 * @param frames up to the newest commit, as SQLite counts them
 * @throws the system's error
 */
export function readWalEnd(wal: string | number, frames: number): WalEnd {
  if (typeof wal === 'number') return { salts: saltsOf(wal), frames }
  let fd: number
  try {
    fd = fs.openSync(wal, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { salts: '', frames }
    throw error
  }
  try {
    return { salts: saltsOf(fd), frames }
  } finally {
    fs.closeSync(fd)
  }
}

function saltsOf(fd: number): string {
  const bytes = fs.readSync(fd, head, 0, WAL_HEADER_BYTES, 0)
  return parseWalHeader(head.subarray(0, bytes))?.salts ?? ''
}
