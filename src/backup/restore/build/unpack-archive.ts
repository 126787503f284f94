import { readPlain } from '../../archive/archive-reader.ts'
import { decompressWhole } from '../../archive/zstd/seekable-zstd.ts'
import type { RestoreTaskRunner } from '../threads/restore-task.ts'
import { ArchiveInChain } from './archive-in-chain.ts'
import type { ArchivePlace } from './restore-limits.ts'
import { writeMemberHere } from './restore-member.ts'

/** A task can't be ended before its end. A few megabytes can declare, and unpack to, terabytes. */
const DECLARED_BYTES_MAX = 128 * 1_048_576

/**
 * Applies the first archive of a chain, all of which is in memory, without giving up the thread.
 *
 * @returns whether SQLite's check found the database sound as it is now, before it was stored
 * @throws what reading it as a stream throws; an error if it declares more than can be done at once
 */
export async function unpackArchive(
  archive: Uint8Array,
  place: ArchivePlace,
  tasks: RestoreTaskRunner,
): Promise<boolean> {
  const tasksFor = (bytes: number) => {
    if (bytes > DECLARED_BYTES_MAX) throw new Error('The archive declares too much to be unpacked at once.')
    return tasks
  }
  const applied = new ArchiveInChain(place, { tasksFor, write: writeMemberHere })
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)
  const isSound = await readPlain(decompressWhole(bytes), applied)
  return applied.end() && isSound
}
