import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/limits.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellError } from '../../errors.ts'
import { corrupt } from '../archive/backup-errors.ts'
import { DATABASE_MEMBER, type ManifestHead } from '../archive/manifest.ts'
import type { ObjectReader } from '../archive/object-reader.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { CellOwnership } from '../versions/cell-ownership.ts'
import { noBackupYet } from '../versions/object-keys.ts'
import { type Listing, listingOf, type VersionIndex } from '../versions/version-index.ts'
import type { RestoredNames } from './cell-installer.ts'
import { buildDatabase } from './restore-build.ts'
import { proveCell } from './restore-database.ts'
import { discardRestored } from './restore-install.ts'
import type { RestoreThreads } from './restore-threads.ts'
import {
  type CellContents,
  currentVersion,
  lastName,
  type MarkedCell,
  markRestored,
} from './restored-mark.ts'

export interface CellRestorerParts {
  objectStore: ObjectStore
  reader: ObjectReader
  storeId: string
  index: VersionIndex
  threads: RestoreThreads
  limits: Limits
  clock: Clock
  paths(cellId: string): CellPaths
}

export interface CellRestore extends RestoreOptions, MarkedCell {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** The cell is lost, and comes back as it last was; otherwise, and without a version, its newest backup is restored. */
  recovers: boolean
  /** Waits until so many stored bytes may be read. */
  willMove(bytes: number): Promise<void>
  /** Switches the cell to the database in `incoming.db`. */
  install(manifest: ManifestHead, names: RestoredNames): Promise<void>
}

/** Restores cells from their backups. The caller runs no other backup or restore of the same cell meanwhile. */
export class CellRestorer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** The cell stays unchanged until the new database is proven. Then the switch is atomic (restore-install.ts). */
  async run(cellId: string, restore: CellRestore): Promise<RestoreResult> {
    const { objectStore, reader, index, clock, storeId, threads, limits } = this.#parts
    const { signal, onProgress, willMove } = restore
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const { manifest, listing, contents } = await this.#find(cellId, restore)
    const { version, kind } = manifest
    const paths = this.#parts.paths(cellId)
    const expected = { storeId, cellId, limits }
    const sizeBytes = await buildDatabase(reader, manifest, expected, paths, threads, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
      willMove,
      onDamage: (each) => index.proven(each, listing, false),
    })
    for (const each of [...manifest.chain, version]) index.proven(each, listing, true)
    try {
      proveCell(paths.restoreTarget, DATABASE_MEMBER)
      signal?.throwIfAborted()
      const mark =
        version === currentVersion(contents)
          ? undefined
          : await markRestored(objectStore, clock, version, contents, { ...restore, cellId }, { signal })
      signal?.throwIfAborted()
      const newest = contents.versions[0]?.version ?? version
      const last = mark ?? lastName(cellId, contents) ?? newest
      await restore.install(manifest, { newest, last })
    } catch (error) {
      discardRestored(paths)
      throw error
    }
    const timestamp = Date.parse(manifest.created_at)
    const durationMs = clock.monotonic() - started
    return { version, kind, timestamp, replacedAt: null, sizeBytes, durationMs }
  }

  /** @throws `cell_not_found` if it may not have the cell; `backup_not_found`, `backup_corrupt` */
  async #find(
    cellId: string,
    { record, recovers, accountId, version: named, signal }: CellRestore,
  ): Promise<{ manifest: ManifestHead; listing: Listing; contents: CellContents }> {
    const { index } = this.#parts
    const ownership = new CellOwnership(index, () => record)
    ownership.checkRecord(cellId, accountId)
    const contents = await index.contents(cellId, { signal })
    const { versions } = contents
    const listing = listingOf(versions)
    await ownership.checkManifests(cellId, versions, accountId, { signal })
    const version = named ?? (recovers ? currentVersion(contents) : versions[0]?.version)
    if (version === undefined) throw noBackupYet()
    const manifest = await index.manifest(version, cellId, listing, { signal })
    // What is asked for by name is tried again: the object may have been mended.
    const damaged = named === undefined ? index.knownDamage(manifest, listing) : undefined
    if (damaged !== undefined) throw knownDamage(damaged)
    return { manifest, listing, contents }
  }
}

function knownDamage(version: string): CellError {
  return corrupt(
    version,
    'an earlier restore found it damaged; restore another version, or name this one to try it again',
  )
}
