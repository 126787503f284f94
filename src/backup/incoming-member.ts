import fs from 'node:fs/promises'
import { FILE_MODE } from '../engine/durable-files.ts'
import type { Received } from './archive-reader.ts'
import type { IncomingTaskRunner } from './incoming-tasks.ts'
import { writeAll } from './spool.ts'

/** How much may wait in memory for the disk: the fsync at the end has only the rest to write. */
const SYNC_EVERY_BYTES = 32 * 1_048_576
/** Smaller memory may be part of a pool that others use. */
const OWN_MEMORY_BYTES = 524_288

/**
 * Writes a member to a file. The disk has one chunk, and what came before it is hashed, while the next is decompressed.
 * The memory of the chunks is given back.
 */
export async function writeMember(
  file: string,
  bytes: AsyncIterable<Buffer>,
  tasks: IncomingTaskRunner,
): Promise<Received> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  let size = 0
  let unsynced = 0
  let last: Buffer | undefined
  let writing: Promise<void> = Promise.resolve()
  let hashing: Promise<unknown> = Promise.resolve()
  let syncing: Promise<void> = Promise.resolve()
  try {
    for await (const chunk of bytes) {
      await writing
      if (last !== undefined && last.buffer !== chunk.buffer) giveBack(last)
      last = chunk
      const written = size
      hashing = begin(hashing.then(() => tasks.run({ kind: 'hash', file, bytes: written })))
      writing = begin(writeAll(handle, chunk))
      size += chunk.length
      unsynced += chunk.length
      if (unsynced < SYNC_EVERY_BYTES) continue
      unsynced = 0
      await syncing
      syncing = begin(handle.datasync())
    }
    await writing
    await hashing
    await tasks.run({ kind: 'hash', file, bytes: size })
    const sha256 = await tasks.run({ kind: 'digest' })
    await syncing
    return { size, sha256: sha256 as string }
  } finally {
    await Promise.allSettled([writing, hashing, syncing])
    await handle.close()
  }
}

/** Work that is awaited later: until then a failure must not count as unhandled. */
function begin<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

/**
 * Frees the memory of a chunk that was written, and which nothing that follows shares. Left to the collector, a large
 * cell's worth of it has the whole heap looked through again and again.
 */
function giveBack({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= OWN_MEMORY_BYTES) buffer.transfer(0)
}
