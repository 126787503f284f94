import fs from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { type Clock, within } from '../../base/clock.ts'

const READ_BYTES = 1_048_576
/** In memory, what is read past the page cache begins at a multiple of something up to this. It is found by trying. */
const ALIGNED_BYTES = 4_096
const TRY_EVERY_BYTES = 16
/** Most flushes are over by then. */
const AFTER_MS = 2

/** Never looked at, and so one for all. */
const memory = Buffer.allocUnsafeSlow(READ_BYTES + ALIGNED_BYTES)
/** {@link ALIGNED_BYTES} if none has fitted. */
let memoryOffset = 0
/** Of one file, for one flush: a disk that hangs must not be read for ever. */
const READS_MAX = 500
/** Files that are read. Of each there is at most one read that waits, however often it is asked for. */
const reading = new Set<string>()

/**
 * Holds up other processes that write files, until something is over. A read past the page cache (O_DIRECT) holds the lock of the
 * file in the system, for which a write waits, and ends by itself if this process does. Without such reads, nobody is held up. Never throws.
 * Resolves with the last read, which may take longer.
 */
export async function holdWriters(
  clock: Clock,
  files: readonly string[],
  over: Promise<unknown>,
): Promise<void> {
  let isOver = false
  const ends = () => {
    isOver = true
  }
  await within(clock, AFTER_MS, over.then(ends, ends))
  if (!isOver) await Promise.all(files.map((file) => hold(file, () => isOver)))
}

async function hold(file: string, isOver: () => boolean): Promise<void> {
  const { O_RDONLY, O_DIRECT } = fs.constants
  if (O_DIRECT === undefined || reading.has(file)) return
  reading.add(file)
  try {
    await using opened = await open(file, O_RDONLY | O_DIRECT)
    for (let reads = 0; reads < READS_MAX && !isOver(); reads++) if (!(await readPastCache(opened))) return
  } catch {
    // The file is gone, or its file system or this one has no such reads.
  } finally {
    reading.delete(file)
  }
}

/** @returns whether it has read anything */
async function readPastCache(file: FileHandle): Promise<boolean> {
  while (memoryOffset < ALIGNED_BYTES) {
    const tried = memoryOffset
    try {
      return (await file.read(memory, tried, READ_BYTES, 0)).bytesRead > 0
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EINVAL') return false
      // Another file's read may have gone on from here meanwhile.
      if (memoryOffset === tried) memoryOffset += TRY_EVERY_BYTES
    }
  }
  return false
}
