import fs from 'node:fs'

/** Shows whether a file was written or replaced. */
export interface FileFingerprint {
  size: number
  /** Nanoseconds, in decimal. */
  modified: string
  /** In decimal. */
  inode: string
}

/**
 * Uses `stat`, which opens no file and so drops no lock (invariant 4).
 *
 * @returns undefined if the file does not exist
 */
export function fingerprintOf(file: string): FileFingerprint | undefined {
  const stat = fs.statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && { size: Number(stat.size), modified: String(stat.mtimeNs), inode: String(stat.ino) }
}

export function sameFingerprint(a: FileFingerprint, b: FileFingerprint): boolean {
  return a.size === b.size && a.modified === b.modified && a.inode === b.inode
}
