import { makeDirectory } from '../../base/durable-files.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import { type CellError, isCellError } from '../../errors.ts'
import { corrupt, inObject } from '../archive/backup-errors.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { type Acceptable, RestoreBuilder } from './restore-builder.ts'
import { removeUnfinished } from './restore-install.ts'
import type { RestoreThreads } from './restore-threads.ts'

export interface RestoreProgress extends CallOptions {
  /** Called with the stored bytes read so far, and their total. */
  onProgress?: ((bytes: number, total: number) => void) | undefined
  /** Called with the stored bytes of the whole chain before the first is read, which waits for it. */
  willMove?: ((bytes: number) => Promise<void>) | undefined
  /** Called with the version that proved damaged, before the rejection. */
  onDamage?: ((version: string) => void) | undefined
}

const PARALLEL_HEADS = 8

/**
 * Builds the database of a version in `incoming.db` and proves it: every member's length and SHA-256, a complete chain,
 * every frame of every log, and SQLite's quick_check (invariant 10). The cell's own files stay untouched.
 *
 * @returns the database's size in bytes; the file is fsynced
 * @throws `backup_corrupt`, `cell_full` if it is larger than a cell may be; `incoming.db` is removed then
 */
export async function buildDatabase(
  store: ObjectStore,
  target: ManifestHead,
  expected: Acceptable,
  paths: CellPaths,
  threads: RestoreThreads,
  progress: RestoreProgress = {},
): Promise<number> {
  const { readArchive } = await import('../archive/archive-reader.ts')
  makeDirectory(paths.directory)
  removeUnfinished(paths)
  const versions = [...target.chain, target.version]
  const builder = new RestoreBuilder(paths.restoreTarget, versions, expected, threads)
  // The version to blame for damage.
  let reading: string | undefined
  try {
    const total = await totalSize(store, versions, progress)
    await progress.willMove?.(total)
    let done = 0
    for (const version of versions) {
      const open = async (offset: number) => {
        const range = offset === 0 ? undefined : { offset, length: Number.MAX_SAFE_INTEGER - offset }
        const object = await store.get(version, { signal: progress.signal, reusesMemory: true, range })
        if (object === undefined) throw missingVersion(version)
        return count(object.body, (bytes) => {
          progress.signal?.throwIfAborted()
          done = Math.min(done + bytes, total)
          progress.onProgress?.(done, total)
        })
      }
      reading = version
      await readArchive(await open(0), builder.sinkFor(version), open)
      builder.endArchive()
    }
    reading = target.version
    const size = await builder.prove()
    await builder.releaseThread()
    return size
  } catch (error) {
    const isDamage = isCellError(error, 'backup_corrupt')
    if (reading !== undefined && isDamage) progress.onDamage?.(reading)
    await builder.close()
    removeUnfinished(paths)
    throw isDamage ? inObject(reading ?? target.version, error) : error
  }
}

/** Also finds a missing version before the download starts. */
async function totalSize(
  store: ObjectStore,
  versions: readonly string[],
  { signal }: CallOptions,
): Promise<number> {
  let total = 0
  for (let i = 0; i < versions.length; i += PARALLEL_HEADS) {
    const some = versions.slice(i, i + PARALLEL_HEADS)
    const heads = await Promise.all(some.map((version) => store.head(version, { signal })))
    for (const [j, head] of heads.entries()) {
      if (head === undefined) throw missingVersion(some[j] as string)
      total += head.size
    }
  }
  return total
}

function missingVersion(version: string): CellError {
  return corrupt(version, 'this backup is part of the chain, but it is missing')
}

async function* count(
  body: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    onBytes(chunk.length)
    yield chunk
  }
}
