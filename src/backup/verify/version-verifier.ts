import { randomUUID } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { CellPaths } from '../../base/files/store-paths.ts'
import type { Limits } from '../../base/options/limits.ts'
import { type CellError, isCellError } from '../../errors.ts'
import { corrupt, inObject } from '../archive/backup-errors.ts'
import { DATABASE_MEMBER, type ManifestHead } from '../archive/manifest.ts'
import type { ObjectReader } from '../archive/object-reader.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { buildDatabase, type RestoreProgress } from '../restore/build/restore-build.ts'
import { type DatabaseContents, proveCell } from '../restore/build/restore-database.ts'
import type { Acceptable } from '../restore/build/restore-limits.ts'
import { currentState } from '../restore/install/restored-mark.ts'
import type { CheckedFor, RestoreThreads } from '../restore/threads/restore-threads.ts'
import type { BackupOptions } from '../versions/backup-types.ts'
import { backupNotFound, cellPrefix, noBackup } from '../versions/object-keys.ts'
import { type Listing, listingOf, type VersionIndex } from '../versions/version-index.ts'
import type { ProvenContents, VerifyResult, VerifyTask } from './verify-types.ts'

interface VersionVerifierParts extends VerifyPlace {
  objectStore: ObjectStore
  storeId: string
  index: VersionIndex
  /** How large a restored cell may be. */
  limits: Limits
  clock: Clock
}

interface VerifierOptions extends Pick<BackupOptions, 'signal' | 'onProgress'> {
  /** Nobody has asked for it. */
  isDrill?: boolean | undefined
}

/** A proof takes room that nobody has asked for: it must not be what fills the disk under the cells. */
const SPARE_BYTES = 256 * 1_048_576

/** Proves that a version can be restored, by restoring it (docs/decisions/0015). Remembers which versions are damaged. */
export class VersionVerifier {
  readonly #parts: VersionVerifierParts

  constructor(parts: VersionVerifierParts) {
    this.#parts = parts
  }

  /**
   * @throws `backup_corrupt` with the object and the member; `backup_not_found`; `disk_full` if it would take the last bytes
   *   of the disk; as a restore does
   */
  async run(task: VerifyTask, options: VerifierOptions): Promise<VerifyResult> {
    const { cellId } = task
    const { signal } = options
    signal?.throwIfAborted()
    const contents = await this.#parts.index.contents(cellId, { signal })
    const listing = listingOf(contents.versions)
    if (task.version === undefined) await this.#assertStored(task, listing, { signal })
    const version = task.version ?? currentState(contents)?.version
    if (version === undefined) throw noBackup()
    return await this.#prove({ ...task, version }, listing, options)
  }

  /** A listing does not show what somebody has removed; this machine knows what it stored last. */
  async #assertStored(
    { cellId, stored, isStored }: VerifyTask,
    listing: Listing,
    options: CallOptions,
  ): Promise<void> {
    if (stored !== undefined && !listing.has(stored)) {
      // The listing may lag.
      if ((await this.#parts.objectStore.head(stored, options)) === undefined) throw missing(stored)
    } else if (listing.size === 0 && isStored) throw missing(cellPrefix(cellId))
  }

  async #prove(
    { cellId, version, deep }: VerifyTask & { version: string },
    listing: Listing,
    { signal, onProgress, isDrill }: VerifierOptions,
  ): Promise<VerifyResult> {
    const { index, storeId, limits, clock } = this.#parts
    const started = clock.monotonic()
    let damaged: string | undefined
    try {
      const manifest = await index.manifest(version, cellId, listing, { signal })
      const objects = [...manifest.chain, version]
      const expected = { storeId, cellId, limits, spareBytes: SPARE_BYTES }
      const contents = await verifyVersion(this.#parts, manifest, expected, deep, {
        signal,
        drillOf: isDrill === true ? cellId : undefined,
        onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
        onDamage: (each) => {
          damaged = each
        },
      })
      for (const each of objects) index.proven(each, listing, true)
      const storedBytes = objects.reduce((sum, each) => sum + (listing.get(each) ?? 0), 0)
      const { kind } = manifest
      const proven = { version, kind, objects, storedBytes, ...contents, deep, provenAt: clock.now() }
      return { ...proven, durationMs: clock.monotonic() - started }
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      // Retention may have removed it meanwhile, and an incremental before what it continues.
      if ((await this.#parts.objectStore.head(version, { signal })) === undefined) throw backupNotFound()
      if (damaged !== undefined) index.proven(damaged, listing, false)
      throw inObject(damaged ?? version, error)
    }
  }
}

function missing(object: string): CellError {
  return inObject(object, corrupt(object, 'this machine has stored it, but it is missing'))
}

interface VerifyPlace {
  reader: ObjectReader
  threads: RestoreThreads
  /** Each version is restored in a folder of its own below it. */
  spoolDirectory: string
}

/**
 * Restores a version where nobody uses it, counts its rows, and removes it again. It needs no local state and opens no
 * cell, so any process with the object store can run it.
 *
 * @throws `backup_corrupt`; `cell_full`; what the object store throws. Nothing stays on disk in any case.
 */
async function verifyVersion(
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
