import { isCellError } from '../../errors.ts'
import type { CellIdentity } from '../archive/cell-identity.ts'
import { chainVersionsMax } from '../changes/chain-bounds.ts'
import type { ChangeTracker } from '../changes/change-tracker.ts'
import type { ChangeTrackers } from '../changes/change-trackers.ts'
import type { BackupComponents } from '../versions/backup-components.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../versions/backup-types.ts'
import { compareVersions, keyBefore, parseVersion, versionOf } from '../versions/object-keys.ts'
import { ObjectStoreClaim } from '../versions/object-store-claim.ts'
import { pruneVersions } from '../versions/retention.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import { UploadSweep } from '../versions/upload-sweep.ts'
import type { VersionIndex } from '../versions/version-index.ts'
import { type BackupOrder, CellBackup } from './cell-backup.ts'

const VERSION_ATTEMPTS = 5

/** Makes the backups of any cell, one after the other: names them, sees that what they go on from is there, and prunes. */
export class BackupRunner {
  readonly #c: BackupComponents
  readonly #index: VersionIndex
  readonly #trackers: ChangeTrackers
  readonly #claim: ObjectStoreClaim
  readonly #sweep: UploadSweep

  /** @param signal ends what no single caller can */
  constructor(c: BackupComponents, index: VersionIndex, trackers: ChangeTrackers, signal: AbortSignal) {
    this.#c = c
    this.#index = index
    this.#trackers = trackers
    const { objectStore, storeId, clock, log, progress } = c
    const onNewTarget = () => {
      trackers.startAnew()
      c.onNewTarget()
    }
    this.#claim = new ObjectStoreClaim(objectStore, storeId, clock, progress, onNewTarget, signal)
    this.#sweep = new UploadSweep(objectStore, clock, log)
  }

  /** @param keep restorable versions to keep; undefined keeps all */
  async run(
    identity: CellIdentity,
    kind: BackupKind,
    keep: number | undefined,
    options: BackupOptions,
  ): Promise<BackupResult> {
    const { cells } = this.#c
    const { cell_id: cellId } = identity
    options.signal?.throwIfAborted()
    await this.#claim.ensure()
    this.#sweep.sweepIfDue()
    for (let attempt = 1; ; attempt++) {
      const versions = await this.#versions(cellId, keep, options.signal)
      const tracker = this.#trackers.get(cellId)
      const order = { kind, ...this.#stamp(cellId, tracker, versions), versionsMax: chainVersionsMax(keep) }
      const { database, unpin } = cells.pin(cellId)
      try {
        const result = await this.#backup(identity, tracker, options).run(order, database, unpin)
        await this.#prune(cellId, result, versions, keep, options)
        return result
      } catch (error) {
        // The stamp was taken since the listing, by a version that this machine knew nothing of: take a later one.
        if (!isCellError(error, 'object_exists') || attempt === VERSION_ATTEMPTS) throw error
      } finally {
        unpin()
      }
    }
  }

  /** Ends what runs beside the backups. */
  async stop(): Promise<void> {
    await this.#sweep.stop()
  }

  #backup(identity: CellIdentity, tracker: ChangeTracker, options: BackupOptions): CellBackup {
    const { objectStore: store, spoolDirectory, clock } = this.#c
    const remember = this.#index.remember.bind(this.#index)
    return new CellBackup({ store, spoolDirectory, clock, stored: remember }, identity, tracker, options)
  }

  /**
   * The versions there are, newest first: all if some may have to go, else from the chain's base on. What the next
   * backup is to rest on must be there: an object store can have been emptied, by a person or by a rule of its own.
   */
  async #versions(
    cellId: string,
    keep: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<StoredVersion[]> {
    const { progress } = this.#trackers.get(cellId)
    const known = [...(progress.chain?.versions ?? []), progress.lastVersion].filter((each) => each !== null)
    const oldest = known.toSorted(compareVersions).at(-1)
    const after = keep === undefined && oldest !== undefined ? keyBefore(oldest) : undefined
    const versions = await this.#index.versions(cellId, { after, signal })
    const present = new Set(versions.map(({ version }) => version))
    if (known.every((version) => present.has(version))) return versions
    this.#claim.invalidate()
    await this.#claim.ensure()
    const tracker = this.#trackers.get(cellId)
    if (!tracker.progress.chain?.versions.every((version) => present.has(version))) tracker.dropChain()
    return versions
  }

  /** Later than every version there is or was tried, also when the clock has stepped back. */
  #stamp(
    cellId: string,
    { progress }: ChangeTracker,
    versions: readonly StoredVersion[],
  ): Pick<BackupOrder, 'version' | 'time'> {
    const taken = [versions[0]?.version, progress.lastVersion].map((version) => {
      return version ? (parseVersion(version)?.time ?? 0) : 0
    })
    const time = Math.max(this.#c.clock.now(), ...taken.map((each) => each + 1))
    return { version: versionOf(cellId, time), time }
  }

  /** The backup is stored whatever becomes of this: old versions that could not be removed go the next time. */
  async #prune(
    cellId: string,
    { version, sizeBytes }: BackupResult,
    before: readonly StoredVersion[],
    keep: number | undefined,
    { signal }: BackupOptions,
  ): Promise<void> {
    if (keep === undefined) return
    const versions = [{ version, sizeBytes }, ...before]
    try {
      await pruneVersions(this.#c.objectStore, this.#index, cellId, versions, keep, { signal })
    } catch (err) {
      this.#c.log.warn({ cellId, err }, 'old backups could not be removed; they will be after the next one')
    }
  }
}
