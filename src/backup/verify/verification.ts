import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/limits.ts'
import { unlessAborted } from '../../base/unless-aborted.ts'
import { CellError, isCellError } from '../../errors.ts'
import { corrupt, toBackupError } from '../archive/backup-errors.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import type { BackupKind, BackupOptions } from '../versions/backup-types.ts'
import { backupNotFound, cellPrefix, checkVersion, compareVersions } from '../versions/object-keys.ts'
import type { Retention } from '../versions/retention.ts'
import type { Proof } from '../versions/retention-notes.ts'
import { type Listing, listingOf, type VersionIndex } from '../versions/version-index.ts'
import type { FoundDamage, VerificationTable } from './verification-table.ts'
import { type ProvenContents, type VerifyPlace, verifyVersion } from './verify-version.ts'

export interface VerifyOptions extends Omit<BackupOptions, 'permit'> {
  /** Default: the newest. */
  version?: string | undefined
  /** Runs SQLite's `integrity_check` in place of `quick_check`: it also compares each index with its table. */
  deep?: boolean | undefined
}

/** What was proven. */
export interface VerifyResult extends ProvenContents {
  version: string
  kind: BackupKind
  /** The objects that were read: the version's chain, its base first, and the version. */
  objects: string[]
  /** Their bytes. */
  storedBytes: number
  deep: boolean
  /** Epoch milliseconds. */
  provenAt: number
  /** Milliseconds. */
  durationMs: number
}

export interface VerificationParts extends VerifyPlace {
  storeId: string
  index: VersionIndex
  retention: Retention
  progress: BackupProgressTable
  table: VerificationTable
  /** How large a restored cell may be. */
  limits: Limits
  clock: Clock
}

/**
 * Proves that versions can be restored, by restoring them (docs/decisions/0015). One at a time: it is the least urgent work
 * of a node.
 */
export class Verification {
  readonly #parts: VerificationParts
  readonly #abort = new AbortController()
  #last: Promise<void> = Promise.resolve()

  constructor(parts: VerificationParts) {
    this.#parts = parts
  }

  /**
   * Proves every checksum of a version and its chain, that the chain is complete and in order, and SQLite's own check, and
   * counts the rows. What is proven is recorded, and so is damage.
   *
   * @throws `backup_corrupt` with the object and the member, `backup_not_found`, `invalid_version`, `cell_full`,
   * `disk_full`, `busy`, `object_store_unavailable`, `object_store_error`, `store_closed`
   */
  async verify(cellId: string, options: VerifyOptions = {}): Promise<VerifyResult> {
    if (options.version !== undefined) checkVersion(options.version, cellId)
    const signals = [this.#abort.signal, ...(options.signal === undefined ? [] : [options.signal])]
    const signal = AbortSignal.any(signals)
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    const before = this.#last
    this.#last = before.then(() => ended)
    try {
      await unlessAborted(before, signal)
      return await this.#verify(cellId, { ...options, signal })
    } catch (error) {
      throw toBackupError(error, signal)
    } finally {
      end()
    }
  }

  /** The newest version that was proven last, as far as this machine knows; asks nobody. */
  lastProven(cellId: string): Proof | undefined {
    return this.#parts.retention.lastProven(cellId)
  }

  /** Damage of a cell's backups that no newer version has made up for; asks nobody. */
  damage(cellId: string): FoundDamage | undefined {
    return this.#parts.table.damage(cellId)
  }

  /** Cells, the catalog among them, whose backups are known to be damaged; asks nobody. */
  get damagedCells(): number {
    return this.#parts.table.damagedCount()
  }

  /** Cancels what runs and waits, and resolves once it has left nothing behind. */
  async stop(): Promise<void> {
    this.#abort.abort(new CellError('store_closed', 'The store is closed.'))
    await this.#last
  }

  async #verify(cellId: string, options: VerifyOptions): Promise<VerifyResult> {
    const { index } = this.#parts
    const { signal } = options
    signal?.throwIfAborted()
    const known = this.#parts.progress.find(cellId).chain?.versions.at(-1)
    const listing = listingOf(await index.versions(cellId, { signal }))
    try {
      if (options.version === undefined) await this.#assertStored(cellId, known, listing, { signal })
      const [newest] = listing.keys()
      const version = options.version ?? newest
      if (version === undefined) throw backupNotFound()
      return await this.#prove(cellId, version, listing, options)
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      const { version, member = '' } = error.details
      if (!(await this.#isMadeUpFor(cellId, options.version, listing, { signal }))) {
        const damage = { version: version ?? member, member, foundAt: this.#parts.clock.now() }
        this.#parts.table.noteDamage(cellId, damage)
      }
      throw error
    }
  }

  /** Whether a newer version than the damaged one is proven, and does not rest on what is damaged. */
  async #isMadeUpFor(
    cellId: string,
    version: string | undefined,
    listing: Listing,
    options: CallOptions,
  ): Promise<boolean> {
    const { index, retention } = this.#parts
    const proof = retention.lastProven(cellId)
    if (version === undefined || proof === undefined || !isAsNew(proof.version, version)) return false
    return (await index.restorable(proof.version, cellId, listing, options)) !== undefined
  }

  /** A listing does not show what somebody has removed; this machine knows what it stored last. */
  async #assertStored(
    cellId: string,
    known: string | undefined,
    listing: Listing,
    options: CallOptions,
  ): Promise<void> {
    const { retention, objectStore } = this.#parts
    if (known !== undefined && !listing.has(known)) {
      // The listing may lag.
      if ((await objectStore.head(known, options)) === undefined) throw missing(known)
    } else if (listing.size === 0 && retention.lastStoredAt(cellId) !== undefined) {
      throw missing(cellPrefix(cellId))
    }
  }

  async #prove(
    cellId: string,
    version: string,
    listing: Listing,
    { deep = false, signal, onProgress }: VerifyOptions,
  ): Promise<VerifyResult> {
    const { index, storeId, limits, clock } = this.#parts
    const started = clock.monotonic()
    let damaged: string | undefined
    try {
      const manifest = await index.manifest(version, cellId, listing, { signal })
      const objects = [...manifest.chain, version]
      const contents = await verifyVersion(this.#parts, manifest, { storeId, cellId, limits }, deep, {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
        onDamage: (each) => {
          damaged = each
        },
      })
      for (const each of objects) index.proven(each, listing, true)
      await this.#record(cellId, version, listing, { signal })
      const storedBytes = objects.reduce((sum, each) => sum + (listing.get(each) ?? 0), 0)
      const { kind } = manifest
      const proven = { version, kind, objects, storedBytes, ...contents, deep, provenAt: clock.now() }
      return { ...proven, durationMs: clock.monotonic() - started }
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      // Retention may have removed it meanwhile, and an incremental before what it continues.
      if (!(await this.#isStored(version, { signal }))) throw backupNotFound()
      if (damaged !== undefined) index.proven(damaged, listing, false)
      throw named(damaged ?? version, error)
    }
  }

  async #isStored(version: string, options: CallOptions): Promise<boolean> {
    return (await this.#parts.objectStore.head(version, options)) !== undefined
  }

  /** A proof of an older version does not replace that of a newer one, unless nobody can restore the newer one. */
  async #record(cellId: string, version: string, listing: Listing, options: CallOptions): Promise<void> {
    const { index, retention, table } = this.#parts
    const damage = table.damage(cellId)
    if (damage !== undefined && isAsNew(version, damage.version)) table.noteMended(cellId)
    const before = retention.lastProven(cellId)
    if (before !== undefined && !isAsNew(version, before.version)) {
      if ((await index.restorable(before.version, cellId, listing, options)) !== undefined) return
    }
    await retention.recordProven(cellId, version, options)
  }
}

function isAsNew(version: string, other: string): boolean {
  return compareVersions(version, other) <= 0
}

function missing(object: string): CellError {
  return named(object, corrupt(object, 'this machine has stored it, but it is missing'))
}

/** The error with the object that it is about. What is missing is named already. */
function named(version: string, error: CellError): CellError {
  const { message, details, cause } = error
  const object = details.member?.includes('/') ? details.member : version
  const text = message.includes(object) ? message : `${object}: ${message}`
  return new CellError('backup_corrupt', text, { ...details, version: object, cause })
}
