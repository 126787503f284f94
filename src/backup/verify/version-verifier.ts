import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/options/limits.ts'
import { type CellError, isCellError } from '../../errors.ts'
import { corrupt, inObject } from '../archive/backup-errors.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { currentState } from '../restore/install/restored-mark.ts'
import type { BackupOptions } from '../versions/backup-types.ts'
import { backupNotFound, cellPrefix, noBackup } from '../versions/object-keys.ts'
import { type Listing, listingOf, type VersionIndex } from '../versions/version-index.ts'
import type { VerifyResult, VerifyTask } from './verify-types.ts'
import { type VerifyPlace, verifyVersion } from './verify-version.ts'

export interface VersionVerifierParts extends VerifyPlace {
  objectStore: ObjectStore
  storeId: string
  index: VersionIndex
  /** How large a restored cell may be. */
  limits: Limits
  clock: Clock
}

export interface VerifierOptions extends Pick<BackupOptions, 'signal' | 'onProgress'> {
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
