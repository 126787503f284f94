import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { CellPaths } from '../../base/files/store-paths.ts'
import { isCellError } from '../../errors.ts'
import { DATABASE_MEMBER, type ManifestHead } from '../archive/manifest.ts'
import type { ObjectReader } from '../archive/object-reader.ts'
import { buildDatabase, type RestoreProgress } from '../restore/build/restore-build.ts'
import { type DatabaseContents, proveCell } from '../restore/build/restore-database.ts'
import type { Acceptable } from '../restore/target/restore-limits.ts'
import type { CheckedFor, RestoreThreads } from '../restore/threads/restore-threads.ts'

export interface VerifyPlace {
  reader: ObjectReader
  threads: RestoreThreads
  /** Each version is restored in a folder of its own below it. */
  spoolDirectory: string
}

export interface ProvenContents extends DatabaseContents {
  /** Bytes of the restored database. */
  sizeBytes: number
}

/**
 * Restores a version where nobody uses it, counts its rows, and removes it again. It needs no local state and opens no
 * cell, so any process with the object store can run it.
 *
 * @throws `backup_corrupt`; `cell_full`; what the object store throws. Nothing stays on disk in any case.
 */
export async function verifyVersion(
  { reader, threads, spoolDirectory }: VerifyPlace,
  manifest: ManifestHead,
  expected: Acceptable,
  deep: boolean,
  progress: RestoreProgress,
): Promise<ProvenContents> {
  const scratch = new CellPaths(path.join(spoolDirectory, `verify-${randomUUID()}`))
  try {
    const sizeBytes = await buildDatabase(reader, manifest, expected, scratch, threads, {
      ...progress,
      checksAgain: true,
    })
    progress.signal?.throwIfAborted()
    const isCatalog = manifest.cell_id === expected.storeId
    const whose = { account: manifest.account_id ?? '', signal: progress.signal }
    const contents = await examine(
      scratch.restoreTarget,
      sizeBytes,
      { deep, isCatalog },
      threads,
      whose,
    ).catch((error) => {
      if (isCellError(error, 'backup_corrupt')) progress.onDamage?.(manifest.version)
      throw error
    })
    return { sizeBytes, ...contents }
  } finally {
    await fs.rm(scratch.directory, { recursive: true, force: true })
  }
}

async function examine(
  file: string,
  size: number,
  { deep, isCatalog }: { deep: boolean; isCatalog: boolean },
  threads: RestoreThreads,
  whose: CheckedFor,
): Promise<DatabaseContents> {
  if (!isCatalog) proveCell(file, DATABASE_MEMBER)
  const result = await threads.check({ kind: 'examine', file, member: DATABASE_MEMBER, deep }, size, whose)
  return JSON.parse(result as string)
}
