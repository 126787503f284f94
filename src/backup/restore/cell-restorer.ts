import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/limits.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { DATABASE_MEMBER, type ManifestHead } from '../archive/manifest.ts'
import type { ObjectReader } from '../archive/object-reader.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import type { LogIndex } from '../shipping/log-index.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { isUnusable, type Listing, type VersionIndex } from '../versions/version-index.ts'
import type { RestoredNames } from './cell-installer.ts'
import { findTarget } from './find-target.ts'
import { buildDatabase } from './restore-build.ts'
import { proveCell } from './restore-database.ts'
import { discardRestored } from './restore-install.ts'
import { type RestoreTarget, type RestoreTargets, timeOf } from './restore-target.ts'
import type { RestoreThreads } from './restore-threads.ts'
import { type CellContents, currentState, lastName, type MarkedCell, markRestored } from './restored-mark.ts'
import { ShippedLog } from './shipped-log.ts'

export interface CellRestorerParts {
  objectStore: ObjectStore
  reader: ObjectReader
  storeId: string
  index: VersionIndex
  log: LogIndex
  threads: RestoreThreads
  limits: Limits
  clock: Clock
  paths(cellId: string): CellPaths
  /**
   * Stores what the cell has committed and is not shipped yet. Undefined: nothing is shipped.
   *
   * @returns whether all that it has committed is stored now
   */
  flush?: ((cellId: string, options: CallOptions) => Promise<boolean>) | undefined
}

export interface CellRestore extends RestoreOptions, MarkedCell {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** The cell's database file is on this machine. */
  isLocal: boolean
  /** The cell is lost, and comes back as it last was; otherwise, and without a version or time, its newest backup is restored. */
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
    const { clock } = this.#parts
    const { signal } = restore
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const isShipped = await this.#flush(cellId, restore)
    const isBehind = this.#parts.flush !== undefined && restore.isLocal && !isShipped
    const wanted = { ...restore, isBehind }
    const { target, targets, listing, contents } = await findTarget(this.#parts, cellId, wanted)
    const { version, kind } = target.manifest
    const paths = this.#parts.paths(cellId)
    const sizeBytes = await this.#build(cellId, target, listing, restore)
    try {
      proveCell(paths.restoreTarget, DATABASE_MEMBER)
      signal?.throwIfAborted()
      // What was committed while the database was built.
      const isStored = await this.#flush(cellId, restore)
      const replaced = restore.recovers ? target : await this.#replaced(targets)
      const replacedAt = isStored && replaced?.manifest.log !== undefined ? replaced.time : null
      const isLast = restore.recovers || (await this.#isLast(target, targets, contents, restore))
      const mark = isLast ? undefined : await this.#mark(cellId, target, contents, restore)
      signal?.throwIfAborted()
      const newest = contents.versions[0]?.version ?? version
      const last = mark ?? lastName(cellId, contents) ?? newest
      const isNewest = version === newest && target.wals.length === 0
      // What follows is later than the state that it replaces, which stays restorable.
      const line = Math.max(target.time, replaced?.time ?? 0) + 1
      await restore.install(target.manifest, { isNewest, last, line })
      const durationMs = clock.monotonic() - started
      return { version, kind, timestamp: target.time, replacedAt, sizeBytes, durationMs }
    } catch (error) {
      discardRestored(paths)
      throw error
    }
  }

  async #build(
    cellId: string,
    target: RestoreTarget,
    listing: Listing,
    { signal, onProgress, willMove }: CellRestore,
  ): Promise<number> {
    const { reader, index, storeId, threads, limits, paths } = this.#parts
    const { manifest } = target
    const sizeBytes = await buildDatabase(
      reader,
      manifest,
      { storeId, cellId, limits },
      paths(cellId),
      threads,
      {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
        willMove,
        onDamage: (each) => index.proven(each, listing, false),
        log: this.#shipped(target, { signal }),
      },
    )
    for (const each of [...manifest.chain, manifest.version]) index.proven(each, listing, true)
    return sizeBytes
  }

  #shipped({ wals, manifest }: RestoreTarget, options: CallOptions): ShippedLog | undefined {
    return wals.length === 0 ? undefined : new ShippedLog(this.#parts.log, wals, timeOf(manifest), options)
  }

  /** @throws what the object store does, unless the cell is lost: then there is nothing to ship */
  async #flush(cellId: string, { recovers, isLocal, signal }: CellRestore): Promise<boolean> {
    const { flush } = this.#parts
    return flush !== undefined && !recovers && isLocal && (await flush(cellId, { signal }))
  }

  /** The state that the cell had last, if the object store has it. */
  async #replaced(targets: RestoreTargets): Promise<RestoreTarget | undefined> {
    try {
      return await targets.last()
    } catch (error) {
      // Its newest state cannot be restored. The one that was asked for can.
      if (isUnusable(error)) return undefined
      throw error
    }
  }

  /** Whether a total loss brings this state back without a mark. */
  async #isLast(
    { manifest, wals }: RestoreTarget,
    targets: RestoreTargets,
    contents: CellContents,
    { timestamp }: CellRestore,
  ): Promise<boolean> {
    const state = currentState(contents)
    if (timestamp !== undefined || wals.length > 0 || state?.version !== manifest.version) return false
    if (!state.hasLog || manifest.log === undefined) return !state.hasLog || state.until === undefined
    const { wals: later, damage } = await targets.logAfter(manifest)
    return later.length === 0 && damage === undefined
  }

  #mark(
    cellId: string,
    { manifest: { version }, wals, time }: RestoreTarget,
    contents: CellContents,
    restore: CellRestore,
  ): Promise<string> {
    const { objectStore, clock } = this.#parts
    const at = wals.length === 0 ? undefined : time
    const { signal } = restore
    return markRestored(objectStore, clock, { version, at }, contents, { ...restore, cellId }, { signal })
  }
}
