import fs from 'node:fs/promises'
import { FILE_MODE } from '../../base/durable-files.ts'
import type { Received } from '../archive/archive-reader.ts'
import { release } from '../archive/block-memory.ts'
import { writeAll } from '../archive/spool.ts'
import type { RestoreTaskRunner } from './restore-tasks.ts'

/** How much may wait in memory for the disk: the fsync at the end has only the rest to write. */
const SYNC_EVERY_BYTES = 32 * 1_048_576

/** Chunks that are being written at once: the disk's threads always have one to go on with. */
const WRITES_MAX = 4

interface Write {
  chunk: Buffer
  /** Where in the file it ends. */
  end: number
  done: Promise<void>
}

/**
 * Writes a member to a file. The disk has some chunks, and what came before them is hashed, while the next is
 * decompressed. The memory of the chunks is given back.
 */
export async function writeMember(
  file: string,
  bytes: AsyncIterable<Buffer>,
  tasks: RestoreTaskRunner,
): Promise<Received> {
  const handle = await fs.open(file, 'w', FILE_MODE)
  const writes: Write[] = []
  let size = 0
  let synced = 0
  let hashing: Promise<unknown> = Promise.resolve()
  let syncing: Promise<void> = Promise.resolve()
  const finishOldest = async () => {
    const { chunk, end, done } = writes[0] as Write
    await done
    writes.shift()
    // Chunks come in order, so nothing that is still to come shares what the next one no longer does.
    if (writes[0] !== undefined && writes[0].chunk.buffer !== chunk.buffer) release(chunk)
    // The thread is told of all there is to hash, so that it never waits for this one to hear that it has done a part.
    hashing = begin(Promise.all([hashing, tasks.run({ kind: 'hash', file, bytes: end })]))
    if (end - synced < SYNC_EVERY_BYTES) return
    synced = end
    await syncing
    syncing = begin(handle.datasync())
  }
  try {
    for await (const chunk of bytes) {
      if (writes.length === WRITES_MAX) await finishOldest()
      writes.push({ chunk, end: size + chunk.length, done: begin(writeAll(handle, chunk, size)) })
      size += chunk.length
    }
    while (writes.length > 0) await finishOldest()
    await hashing
    const sha256 = await tasks.run({ kind: 'digest' })
    await syncing
    return { size, sha256: sha256 as string }
  } finally {
    await Promise.allSettled([...writes.map(({ done }) => done), hashing, syncing])
    await handle.close()
  }
}

/** Work that is awaited later: until then a failure must not count as unhandled. */
function begin<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}
