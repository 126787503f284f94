import type { CellDatabase } from '../../engine/cell-database.ts'
import { isCellError } from '../../errors.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { CHAIN_VERSIONS_MAX } from '../changes/backup-chain.ts'
import type { ChangeTracker } from '../changes/change-tracker.ts'
import type { ChangeTrackers } from '../changes/change-trackers.ts'
import type { BackupKind, BackupOptions, BackupOrigin, BackupResult } from '../versions/backup-types.ts'
import { compareVersions, keyBefore, parseVersion, versionOf } from '../versions/object-keys.ts'
import type { ObjectStoreClaim } from '../versions/object-store-claim.ts'
import type { Retention } from '../versions/retention.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import type { UploadSweep } from '../versions/upload-sweep.ts'
import { type BackupOrder, type BackupTarget, CellBackup } from './cell-backup.ts'

const VERSION_ATTEMPTS = 5

export interface BackupRunnerParts extends BackupTarget {
  trackers: ChangeTrackers
  claim: ObjectStoreClaim
  sweep: UploadSweep
  retention: Retention
}

/** What is asked for. */
export interface BackupRequest {
  kind: BackupKind
  origin: BackupOrigin
  /** The most versions of a chain. */
  chainVersionsMax?: number | undefined
}

/** A cell that stays open until `unpin` is called. */
export interface PinnedCell {
  database: CellDatabase
  unpin(): void
}

/** Runs backups of any cell: names each version, checks that its chain is still stored, and tells retention of it. */
export class BackupRunner {
  readonly #parts: BackupRunnerParts

  constructor(parts: BackupRunnerParts) {
    this.#parts = parts
  }

  /** @param pin opens the cell for one attempt */
  async run(
    identity: CellIdentity,
    { kind, origin, chainVersionsMax = CHAIN_VERSIONS_MAX }: BackupRequest,
    pin: () => PinnedCell,
    options: BackupOptions,
  ): Promise<BackupResult> {
    const { claim, sweep, trackers, retention } = this.#parts
    const { cell_id: cellId } = identity
    options.signal?.throwIfAborted()
    await claim.ensure(options.signal)
    sweep.sweepIfDue()
    for (let attempt = 1; ; attempt++) {
      const versions = await this.#versions(cellId, options.signal)
      const tracker = trackers.get(cellId)
      const next = this.#nextVersion(cellId, tracker, versions)
      const order = { kind, origin, ...next, versionsMax: chainVersionsMax }
      const { database, unpin } = pin()
      try {
        const result = await new CellBackup(this.#parts, identity, tracker, options).run(
          order,
          database,
          unpin,
        )
        await retention.backupStored(cellId, this.#parts.clock.now(), { signal: options.signal })
        return result
      } catch (error) {
        // Another version took this name since the listing, unknown to this machine: try a later time.
        if (!isCellError(error, 'object_exists') || attempt === VERSION_ATTEMPTS) throw error
      } finally {
        unpin()
      }
    }
  }

  /**
   * The stored versions from the chain's base on, newest first. If a version of the chain is missing, the chain ends: a
   * person or a lifecycle rule may have emptied the object store.
   */
  async #versions(cellId: string, signal: AbortSignal | undefined): Promise<StoredVersion[]> {
    const { index, trackers, claim } = this.#parts
    const { progress } = trackers.get(cellId)
    const known = [...(progress.chain?.versions ?? []), progress.lastVersion].filter((each) => each !== null)
    // What local.db remembers may be no version: an earlier node could store one that no listing shows.
    const oldest = known
      .filter((each) => parseVersion(each)?.cellId === cellId)
      .toSorted(compareVersions)
      .at(-1)
    const after = oldest !== undefined ? keyBefore(oldest) : undefined
    const versions = await index.versions(cellId, { after, signal })
    const present = new Set(versions.map(({ version }) => version))
    if (known.every((version) => present.has(version))) return versions
    claim.invalidate()
    await claim.ensure(signal)
    const tracker = trackers.get(cellId)
    if (!tracker.progress.chain?.versions.every((version) => present.has(version))) tracker.dropChain()
    return versions
  }

  /** A version later than all stored and tried ones, even if the clock has stepped back. */
  #nextVersion(
    cellId: string,
    { progress }: ChangeTracker,
    versions: readonly StoredVersion[],
  ): Pick<BackupOrder, 'version' | 'time'> {
    const taken = [versions[0]?.version, progress.lastVersion].map((version) => {
      return version ? (parseVersion(version)?.time ?? 0) : 0
    })
    const time = Math.max(this.#parts.clock.now(), ...taken.map((each) => each + 1))
    return { version: versionOf(cellId, time), time }
  }
}
