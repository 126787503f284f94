import { closeSync, openSync } from 'node:fs'
import fs from 'node:fs/promises'
import { FILE_MODE, SYNC_EVERY_BYTES } from '../../../base/files/durable-files.ts'
import { writeAll, writeAllSync } from '../../../base/files/write-all.ts'
import type { Received } from '../../archive/archive-reader.ts'
import { release, releaseOwn } from '../../archive/zstd/block-memory.ts'
import type { RestoreTaskRunner } from '../threads/restore-task.ts'

/** Parallel writes: enough to keep the disk's threads busy. */
const WRITES_MAX = 4

/** Writes a member to a file, releases the memory of the chunks, and tells what the file holds then. */
export type WriteMember = (
  file: string,
  bytes: AsyncIterable<Buffer>,
  tasks: RestoreTaskRunner,
) => Promise<Received>

interface Write {
  chunk: Buffer
  /** The offset of its end in the file. */
  end: number
  done: Promise<void>
}

/**
 * Writes a member to a file. While one chunk is decompressed, earlier ones are written, and those before them hashed.
 * Releases the memory of the chunks.
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
    // Chunks come in order: if the next one has another buffer, no later chunk shares this one.
    if (writes[0] === undefined) releaseOwn(chunk)
    else if (writes[0].chunk.buffer !== chunk.buffer) release(chunk)
    // Queue the hash task at once: the thread must not wait for this one to receive the result of the last task.
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

/** As {@link writeMember}, one chunk after the other on this thread: there is no other work to do meanwhile. */
export async function writeMemberHere(
  file: string,
  bytes: AsyncIterable<Buffer>,
  tasks: RestoreTaskRunner,
): Promise<Received> {
  const fd = openSync(file, 'w', FILE_MODE)
  let size = 0
  let written: Buffer | undefined
  try {
    for await (const chunk of bytes) {
      writeAllSync(fd, chunk, size)
      size += chunk.length
      await tasks.run({ kind: 'hash', file, bytes: size })
      // Chunks come in order: if this one has another buffer, no later chunk shares that of the last one.
      if (written !== undefined && written.buffer !== chunk.buffer) release(written)
      written = chunk
    }
    if (written !== undefined) releaseOwn(written)
    // Also for a member without bytes.
    await tasks.run({ kind: 'hash', file, bytes: size })
    return { size, sha256: (await tasks.run({ kind: 'digest' })) as string }
  } finally {
    closeSync(fd)
  }
}

/** Starts work that is awaited later. Until then, a failure must not count as unhandled. */
function begin<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}
