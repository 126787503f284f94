import fs from 'node:fs'
import type { FileHandle } from 'node:fs/promises'

/**
 * Bytes of one write. For a longer one, Linux takes larger pages for its cache. A virtual machine that gives its free memory back
 * has given those back: 200 MB in writes of 1 MiB took 560 ms, and in writes of 64 to 512 KiB 65 ms (ext4, Firecracker). The longest
 * of these, since each write is a round trip between threads.
 */
const WRITE_BYTES = 524_288

/** Writes all of `bytes` from `position` on, or at the file's current position: the system may take fewer than it is given. */
export async function writeAll(handle: FileHandle, bytes: Uint8Array, position?: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const target = position === undefined ? null : position + at
    at += (await handle.write(bytes, at, lengthAt(bytes, at), target)).bytesWritten
  }
}

/** As {@link writeAll}, on this thread. */
export function writeAllSync(fd: number, bytes: Uint8Array, position?: number): void {
  for (let at = 0; at < bytes.length; ) {
    const target = position === undefined ? null : position + at
    at += fs.writeSync(fd, bytes, at, lengthAt(bytes, at), target)
  }
}

function lengthAt(bytes: Uint8Array, at: number): number {
  return Math.min(WRITE_BYTES, bytes.length - at)
}
