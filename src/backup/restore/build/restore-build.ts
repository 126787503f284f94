import fs from 'node:fs/promises'
import { mapLimit } from '../../../base/async/map-limit.ts'
import { makeDirectoryAside } from '../../../base/files/durable-files.ts'
import type { CellPaths } from '../../../base/files/store-paths.ts'
import { isCellError } from '../../../errors.ts'
import { inObject } from '../../archive/backup-errors.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { ObjectReader } from '../../archive/object-reader.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import type { PlannedObject } from '../../versions/backup-types.ts'
import { removeUnfinished } from '../install/restore-install.ts'
import type { CheckedFor, RestoreThreads } from '../threads/restore-threads.ts'
import { Download, type DownloadProgress } from './download.ts'
import type { TakenState } from './prepared-states.ts'
import { RestoreBuilder } from './restore-builder.ts'
import type { Acceptable } from './restore-limits.ts'
import type { ShippedLog } from './shipped-log.ts'

export interface RestoreProgress extends DownloadProgress, Pick<CheckedFor, 'drillOf' | 'checksAgain'> {
  /** Called with the stored bytes of the whole chain before the first is read, which waits for it. */
  willMove?: ((bytes: number) => Promise<void>) | undefined
  /** The version, and maybe some of its log, is applied already, and proven. Then `log` has the rest. */
  prepared?: TakenState | undefined
  /** What was shipped after the version. */
  log?: ShippedLog | undefined
  /** Called with the version that proved damaged, before the rejection. */
  onDamage?: ((version: string) => void) | undefined
}

const PARALLEL_HEADS = 8

/**
 * Builds the database of a version in `incoming.db` and proves it: every member's length and SHA-256, a complete chain,
 * every frame of every log, and SQLite's quick_check, now or of the same bytes before they were stored (invariant 10). The cell's own files stay untouched.
 *
 * @returns the database's size in bytes; the file is fsynced
 * @throws `backup_corrupt`, `cell_full` if it is larger than a cell may be; `incoming.db` is removed then
 */
export async function buildDatabase(
  reader: ObjectReader,
  target: ManifestHead,
  expected: Acceptable,
  paths: CellPaths,
  threads: RestoreThreads,
  progress: RestoreProgress = {},
): Promise<number> {
  await makeDirectoryAside(paths.directory)
  removeUnfinished(paths)
  const versions = [...target.chain, target.version]
  const { signal, drillOf, checksAgain } = progress
  const whose = { account: target.account_id ?? '', signal, drillOf, checksAgain }
  const builder = new RestoreBuilder(paths.restoreTarget, versions, expected, threads, whose)
  // The version to blame for damage.
  let reading: string | undefined
  try {
    if (progress.prepared !== undefined) {
      await fs.rename(progress.prepared.file, paths.restoreTarget)
      builder.goOn()
    }
    const archives = progress.prepared === undefined ? versions : []
    const sizes = await sizesOf(reader, archives, progress)
    const shipped = await progress.log?.sizes()
    const download = new Download(reader, sizes, sum(shipped ?? []), progress)
    await progress.willMove?.(download.total)
    for (const version of archives) {
      reading = version
      await builder.applyArchive(download.open(version), sizes.get(version) ?? 0)
    }
    if (progress.log !== undefined) {
      reading = undefined
      await progress.log.apply(builder, download)
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

function sum(sizes: readonly PlannedObject[]): number {
  return sizes.reduce((total, { sizeBytes }) => total + sizeBytes, 0)
}

/** Also finds a missing version before the download starts. */
async function sizesOf(
  reader: ObjectReader,
  versions: readonly string[],
  { signal }: CallOptions,
): Promise<Map<string, number>> {
  const sizes = await mapLimit(versions, PARALLEL_HEADS, (version) => reader.size(version, { signal }))
  return new Map(versions.map((version, i) => [version, sizes[i] as number]))
}
