import type { Log } from '../../base/log.ts'
import { isCellError } from '../../errors.ts'
import type { CellIdentity } from '../archive/manifest.ts'
import { CHAIN_VERSIONS_MAX } from '../changes/backup-chain.ts'
import type { KnownVersions } from '../changes/log/cell-cutter.ts'
import type { BackupKind, BackupOrigin, BackupResult } from '../versions/backup-types.ts'
import { endOldHistory, type KnownHistory } from '../versions/identity/foreign-versions.ts'
import type { ObjectStoreClaim } from '../versions/identity/object-store-claim.ts'
import type { UploadSweep } from '../versions/identity/upload-sweep.ts'
import { compareVersions, keyBefore, parseVersion, versionOf } from '../versions/object-keys.ts'
import type { Retention } from '../versions/retention/retention.ts'
import { nextStamp, type Stamps } from '../versions/stamps.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import type { VersionFindings } from '../versions/version-findings.ts'
import { listingOf } from '../versions/version-index.ts'
import { type BackupTarget, CellBackup, type CellBackupOptions, type CellUnderBackup } from './cell-backup.ts'

const VERSION_ATTEMPTS = 5

export interface BackupRunnerParts extends BackupTarget {
  findings: VersionFindings
  claim: ObjectStoreClaim
  sweep: UploadSweep
  retention: Retention
  log: Log
}

/** A cell to back up, wherever it is open. */
export interface BackupSource extends CellUnderBackup, KnownHistory {
  /** Called before each try. */
  begin(): Promise<BackupState>
}

export interface BackupState extends KnownVersions {
  identity: CellIdentity
  /** Bytes that a base reads. */
  sizeBytes: number
  /** Undefined without a cluster. */
  stamps?: Stamps | undefined
}

export interface BackupRun extends CellBackupOptions {
  kind: BackupKind
  origin: BackupOrigin
  /** Of a new cell, the version with which its history begins is enough. */
  beginsHistory?: boolean | undefined
  /** The most versions of a chain. */
  chainVersionsMax?: number | undefined
}

/** Runs backups of any cell: names each version, checks that its chain is still stored, and tells retention of it. */
export class BackupRunner {
  readonly #parts: BackupRunnerParts

  constructor(parts: BackupRunnerParts) {
    this.#parts = parts
  }

  async run(cellId: string, source: BackupSource, run: BackupRun): Promise<BackupResult> {
    const { claim, probe, sweep, retention, clock } = this.#parts
    const { kind, origin, chainVersionsMax = CHAIN_VERSIONS_MAX, signal, onProgress, willMove } = run
    signal?.throwIfAborted()
    await claim.ensure(signal)
    await probe.check({ signal })
    sweep.sweepIfDue()
    for (let attempt = 1; ; attempt++) {
      const { identity, sizeBytes, stamps, ...known } = await source.begin()
      const versions = await this.#versions(cellId, source, known, signal)
      await endOldHistory(cellId, known.last, source, versions, this.#parts, { signal })
      // One attempt only: if the listing lags, the key is taken.
      const first = versions.length === 0 && attempt === 1 ? this.#firstVersion(identity) : undefined
      const nextVersion = () => first ?? this.#nextVersion(cellId, known, versions, stamps)
      try {
        const backup = new CellBackup(this.#parts, identity, source, { signal, onProgress, willMove })
        const result = await backup.run({
          kind,
          origin,
          sizeBytes,
          nextVersion,
          beginsHistory: run.beginsHistory === true,
          versionsMax: chainVersionsMax,
        })
        await retention.backupStored(cellId, result.version, clock.now(), { signal })
        return result
      } catch (error) {
        // Another version took this name since the listing, unknown to this machine: try a later time.
        if (!isCellError(error, 'object_exists') || attempt === VERSION_ATTEMPTS) throw error
      }
    }
  }

  /** Whether the object store has newer versions of a cell than this directory ever made. Its chain has ended then. */
  async endOldHistory(cellId: string, source: BackupSource, signal: AbortSignal): Promise<boolean> {
    const { last } = await source.begin()
    if (last === null) return false
    const versions = await this.#parts.index.versions(cellId, { signal })
    return await endOldHistory(cellId, last, source, versions, this.#parts, { signal })
  }

  /**
   * The stored versions from the chain's base on, newest first. If a version of the chain is missing, the chain ends: a
   * person or a lifecycle rule may have emptied the object store.
   */
  async #versions(
    cellId: string,
    source: BackupSource,
    { chain, last }: KnownVersions,
    signal: AbortSignal | undefined,
  ): Promise<StoredVersion[]> {
    const { index, claim } = this.#parts
    const known = [...(chain ?? []), last].filter((each) => each !== null)
    // What local.db remembers may be no version: an earlier node could store one that no listing shows.
    const oldest = known
      .filter((each) => parseVersion(each)?.cellId === cellId)
      .toSorted(compareVersions)
      .at(-1)
    const after = oldest !== undefined ? keyBefore(oldest) : undefined
    const versions = await index.versions(cellId, { after, signal })
    const listing = listingOf(versions)
    const isUsable = (version: string) => listing.has(version) && !index.isDamaged(version, listing)
    if (known.every(isUsable)) return versions
    claim.invalidate()
    await claim.ensure(signal)
    if (chain?.every(isUsable) !== true) await source.dropChain()
    return versions
  }

  /** The catalog's first version has the name that `store.json` gives it: a start that does not find it is refused. */
  #firstVersion({ cell_id, store_id }: CellIdentity): string | undefined {
    return cell_id === store_id ? this.#parts.claim.firstCatalog : undefined
  }

  /** A version later than all stored and tried ones, even if the clock has stepped back. */
  #nextVersion(
    cellId: string,
    { last }: KnownVersions,
    versions: readonly StoredVersion[],
    stamps: Stamps | undefined,
  ): string {
    const taken = [versions[0]?.version, last].map((version) => {
      return version ? (parseVersion(version)?.time ?? 0) : 0
    })
    return versionOf(cellId, nextStamp(this.#parts.clock.now(), taken, stamps))
  }
}
