import fs from 'node:fs'
import { open } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'

/** Direct reads go into memory that begins at a multiple of this, on most disks. */
const ALIGNED_BYTES = 4_096
const READ_BYTES = 1_048_576
const STEP_BYTES = 16
const AFTER_MS = 2

const memory = Buffer.allocUnsafeSlow(READ_BYTES + ALIGNED_BYTES)
let offset: number | undefined = 0

/**
 * Keeps others from writing a file while it is flushed: otherwise a flush of what a worker writes faster than the disk takes it grows
 * with each one. A read that goes past the page cache (O_DIRECT) holds the file's lock in the system, for which a write waits.
 */
export async function holdWriters(file: string, flushed: Promise<unknown>): Promise<void> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  flushed.then(over, over)
  await Promise.race([flushed.catch(() => {}), setTimeout(AFTER_MS)])
  if (isOver || offset === undefined) return
  try {
    await using handle = await open(file, fs.constants.O_RDONLY | fs.constants.O_DIRECT)
    while (!isOver) {
      try {
        await handle.read(memory, offset, READ_BYTES, 0)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EINVAL') return
        offset += STEP_BYTES
        if (offset >= ALIGNED_BYTES) {
          offset = undefined
          return
        }
      }
    }
  } catch {
    // Not on this file system.
  }
}
