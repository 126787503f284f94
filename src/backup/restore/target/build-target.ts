import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { Limits } from '../../../base/options/limits.ts'
import { DATABASE_MEMBER } from '../../archive/manifest.ts'
import type { ObjectReader } from '../../archive/object-reader.ts'
import type { LogIndex } from '../../shipping/stored/log-index.ts'
import type { RestoreOptions } from '../../versions/backup-types.ts'
import type { VersionIndex } from '../../versions/version-index.ts'
import { buildDatabase } from '../build/restore-build.ts'
import { proveCell } from '../build/restore-database.ts'
import { ShippedLog } from '../build/shipped-log.ts'
import { discardRestored } from '../install/restore-install.ts'
import type { RestoreThreads } from '../threads/restore-threads.ts'
import type { FoundTarget } from './find-target.ts'
import { timeOf } from './known-history.ts'

export interface BuilderParts {
  reader: ObjectReader
  storeId: string
  index: VersionIndex
  log: LogIndex
  threads: RestoreThreads
  limits: Limits
}

export interface BuildOptions extends Pick<RestoreOptions, 'signal' | 'onProgress'> {
  /** Waits until so many stored bytes may be read. */
  willMove(bytes: number): Promise<void>
}

/**
 * Builds a state of the cell `source` as `incoming.db` at the paths, and proves it. If that fails, the file is removed.
 *
 * @returns the size of the database in bytes
 */
export async function buildTarget(
  { reader, storeId, index, log, threads, limits }: BuilderParts,
  source: string,
  { target: { manifest, wals }, listing }: FoundTarget,
  paths: CellPaths,
  { signal, onProgress, willMove }: BuildOptions,
): Promise<number> {
  const shipped = wals.length === 0 ? undefined : new ShippedLog(log, wals, timeOf(manifest), { signal })
  const expected = { storeId, cellId: source, limits }
  const sizeBytes = await buildDatabase(reader, manifest, expected, paths, threads, {
    signal,
    onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
    willMove,
    onDamage: (version) => index.proven(version, listing, false),
    log: shipped,
  })
  for (const version of [...manifest.chain, manifest.version]) index.proven(version, listing, true)
  try {
    proveCell(paths.restoreTarget, DATABASE_MEMBER)
  } catch (error) {
    discardRestored(paths)
    throw error
  }
  return sizeBytes
}
