import type { Log } from '../../base/log.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { isCellError } from '../../errors.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { CHAIN_VERSIONS_MAX } from '../changes/backup-chain.ts'
import type { ChangeTrackers } from '../changes/change-trackers.ts'
import { OpenCellCuts } from '../changes/open-cell-cuts.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { BackupKind, BackupOptions, BackupOrigin, BackupResult } from '../versions/backup-types.ts'
import { endOldHistory } from '../versions/foreign-versions.ts'
import { compareVersions, keyBefore, parseVersion, versionOf } from '../versions/object-keys.ts'
import type { ObjectStoreClaim } from '../versions/object-store-claim.ts'
import type { Retention } from '../versions/retention.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import type { UploadSweep } from '../versions/upload-sweep.ts'
import { type BackupTarget, CellBackup } from './cell-backup.ts'
import { OpenDatabaseReader } from './database-reader.ts'

const VERSION_ATTEMPTS = 5

export interface BackupRunnerParts extends BackupTarget {
  trackers: ChangeTrackers
  progress: BackupProgressTable
  claim: ObjectStoreClaim
  sweep: UploadSweep
  retention: Retention
  log: Log
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
    await this.#parts.probe.check({ signal: options.signal })
    sweep.sweepIfDue()
    for (let attempt = 1; ; attempt++) {
      const versions = await this.#versions(cellId, options.signal)
      await endOldHistory(trackers.get(cellId), versions, this.#parts, { signal: options.signal })
      // One attempt only: if the listing lags, the key is taken.
      const first = versions.length === 0 && attempt === 1 ? this.#firstVersion(identity) : undefined
      const nextVersion = () => first ?? this.#nextVersion(cellId, versions)
      const { database, unpin } = pin()
      const cuts = new OpenCellCuts(database, trackers.get(cellId), this.#parts.clock)
      const openReader = () => new OpenDatabaseReader(database)
      try {
        const backup = new CellBackup(this.#parts, identity, { cuts, openReader, release: unpin }, options)
        const result = await backup.run({ kind, origin, nextVersion, versionsMax: chainVersionsMax })
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

  /** Whether the object store has newer versions of a cell than this directory ever made. Its chain has ended then. */
  async endOldHistory(cellId: string, signal: AbortSignal): Promise<boolean> {
    const { index, trackers } = this.#parts
    const tracker = trackers.get(cellId)
    if (tracker.progress.lastVersion === null) return false
    const versions = await index.versions(cellId, { signal })
    return await endOldHistory(tracker, versions, this.#parts, { signal })
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

  /** The catalog's first version has the name that `store.json` gives it: a start that does not find it is refused. */
  #firstVersion({ cell_id, store_id }: CellIdentity): string | undefined {
    return cell_id === store_id ? this.#parts.claim.firstCatalog : undefined
  }

  /** A version later than all stored and tried ones, even if the clock has stepped back. */
  #nextVersion(cellId: string, versions: readonly StoredVersion[]): string {
    const { progress } = this.#parts.trackers.get(cellId)
    const taken = [versions[0]?.version, progress.lastVersion].map((version) => {
      return version ? (parseVersion(version)?.time ?? 0) : 0
    })
    const time = Math.max(this.#parts.clock.now(), ...taken.map((each) => each + 1))
    return versionOf(cellId, time)
  }
}
