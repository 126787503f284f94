import type { Log } from '../../base/log.ts'
import { isCellError } from '../../errors.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { chainVersionsMax } from '../changes/backup-chain.ts'
import type { KnownVersions } from '../changes/cell-cutter.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../versions/backup-types.ts'
import { compareVersions, keyBefore, parseVersion, versionOf } from '../versions/object-keys.ts'
import type { ObjectStoreClaim } from '../versions/object-store-claim.ts'
import { pruneVersions } from '../versions/retention.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import type { UploadSweep } from '../versions/upload-sweep.ts'
import { type BackupTarget, CellBackup, type CellUnderBackup, type VersionName } from './cell-backup.ts'

const VERSION_ATTEMPTS = 5

export interface BackupRunnerParts extends BackupTarget {
  claim: ObjectStoreClaim
  sweep: UploadSweep
  log: Log
}

/** A cell to back up, wherever it is open. */
export interface BackupSource extends CellUnderBackup {
  /** Called before each try. */
  begin(): Promise<BackupState>
  /** A version of the chain is missing in the object store: the next backup is a base. */
  dropChain(): Promise<void>
}

export interface BackupState extends KnownVersions {
  identity: CellIdentity
  /** Bytes that a base reads. */
  sizeBytes: number
}

export interface BackupRun extends BackupOptions {
  kind: BackupKind
  /** Restorable versions to keep; undefined keeps all. */
  keep: number | undefined
  /** Waits until so many bytes may be read. */
  willMove?: (bytes: number) => Promise<void>
}

/** Runs backups of any cell: names each version, checks that its chain is still stored, and prunes old versions. */
export class BackupRunner {
  readonly #parts: BackupRunnerParts

  constructor(parts: BackupRunnerParts) {
    this.#parts = parts
  }

  async run(cellId: string, source: BackupSource, run: BackupRun): Promise<BackupResult> {
    const { claim, sweep } = this.#parts
    const { kind, keep, signal, onProgress, willMove } = run
    signal?.throwIfAborted()
    await claim.ensure(signal)
    sweep.sweepIfDue()
    for (let attempt = 1; ; attempt++) {
      const { identity, sizeBytes, ...known } = await source.begin()
      const versions = await this.#versions(cellId, source, known, run)
      if (kind === 'snapshot' || known.chain === null) await willMove?.(sizeBytes)
      const nextVersion = () => this.#nextVersion(cellId, known, versions)
      try {
        const backup = new CellBackup(this.#parts, identity, source, { signal, onProgress })
        const result = await backup.run({ kind, nextVersion, versionsMax: chainVersionsMax(keep) })
        await this.#prune(cellId, result, versions, run)
        return result
      } catch (error) {
        // Another version took this name since the listing, unknown to this machine: try a later time.
        if (!isCellError(error, 'object_exists') || attempt === VERSION_ATTEMPTS) throw error
      }
    }
  }

  /**
   * The stored versions, newest first: all if some may be pruned, otherwise from the chain's base on. If a version of the
   * chain is missing, the chain ends: a person or a lifecycle rule may have emptied the object store.
   */
  async #versions(
    cellId: string,
    source: BackupSource,
    { chain, last }: KnownVersions,
    { keep, signal }: BackupRun,
  ): Promise<StoredVersion[]> {
    const { index, claim } = this.#parts
    const known = [...(chain ?? []), last].filter((each) => each !== null)
    // What local.db remembers may be no version: an earlier node could store one that no listing shows.
    const oldest = known
      .filter((each) => parseVersion(each)?.cellId === cellId)
      .toSorted(compareVersions)
      .at(-1)
    const after = keep === undefined && oldest !== undefined ? keyBefore(oldest) : undefined
    const versions = await index.versions(cellId, { after, signal })
    const present = new Set(versions.map(({ version }) => version))
    if (known.every((version) => present.has(version))) return versions
    claim.invalidate()
    await claim.ensure(signal)
    if (chain?.every((version) => present.has(version)) !== true) await source.dropChain()
    return versions
  }

  /** A version later than all stored and tried ones, even if the clock has stepped back. */
  #nextVersion(cellId: string, { last }: KnownVersions, versions: readonly StoredVersion[]): VersionName {
    const taken = [versions[0]?.version, last].map((version) => {
      return version ? (parseVersion(version)?.time ?? 0) : 0
    })
    const time = Math.max(this.#parts.clock.now(), ...taken.map((each) => each + 1))
    return { version: versionOf(cellId, time), time }
  }

  /** Never fails the backup, which is stored already: the next backup prunes again. */
  async #prune(
    cellId: string,
    { version, sizeBytes }: BackupResult,
    before: readonly StoredVersion[],
    { keep, signal }: BackupRun,
  ): Promise<void> {
    if (keep === undefined) return
    const versions = [{ version, sizeBytes }, ...before]
    try {
      await pruneVersions(this.#parts.objectStore, this.#parts.index, cellId, versions, keep, { signal })
    } catch (err) {
      this.#parts.log.warn({ cellId, err }, 'could not remove old backups; the next backup tries again')
    }
  }
}
