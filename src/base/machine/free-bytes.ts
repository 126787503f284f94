import fs from 'node:fs'

/** Bytes that this process may still write on the disk of a directory. @throws the system's error */
export function freeBytes(directory: string): number {
  const { bavail, bsize } = fs.statfsSync(directory)
  return bavail * bsize
}
