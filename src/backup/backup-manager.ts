import { cellNotFound } from '../engine/cell-registry.ts'
import type { Clock } from '../engine/clock.ts'
import { CellError, isCellError } from '../errors.ts'
import { BackupCatalogue, type BackupInfo } from './backup-list.ts'
import {
  type BackupKind,
  type BackupOptions,
  type BackupResult,
  CellBackup,
  type CellIdentity,
} from './cell-backup.ts'
import { ChangeTracker } from './change-tracker.ts'
import type { Manifest } from './manifest.ts'
import { backupNotFound, checkVersion, parseVersion, versionOf } from './object-keys.ts'
import type { ObjectStore } from './object-store.ts'
import type { BackupProgress, BackupProgressTable } from './progress-table.ts'
import { buildIncoming } from './restore-build.ts'
import { discardIncoming, finishRestore, installRestored } from './restore-install.ts'
import { pruneVersions } from './retention.ts'
import { claimPrefix } from './store-identity.ts'
import type { BackupSubjects } from './subjects.ts'

export type { BackupInfo } from './backup-list.ts'
export type { BackupKind, BackupOptions, BackupProgressEvent, BackupResult } from './cell-backup.ts'

export interface BackupList {
  /** Newest first. */
  backups: BackupInfo[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

export interface RestoreOptions extends BackupOptions {
  /** The newest, if none is named. */
  version?: string | undefined
  /** Only if the backup is of this account's cell; without it, of any. */
  accountId?: string | undefined
}

export interface RestoreResult {
  version: string
  kind: BackupKind
  /** Bytes of the restored database. */
  sizeBytes: number
  durationMs: number
}

export interface BackupComponents {
  objectStore: ObjectStore
  storeId: string
  /** Epoch milliseconds. */
  storeCreatedAt: number
  subjects: BackupSubjects
  progress: BackupProgressTable
  clock: Clock
  spoolDirectory: string
  /** How many restorable versions of a cell to keep; undefined keeps all. */
  keep: number | undefined
  /** Resolves once every change of the catalog so far is in the object store. */
  catalogStored(): Promise<void>
  /** Told when a cell has changed for the first time since its newest backup. */
  onChange(cellId: string): void
}

/** Versions that rest on one base: bounds what a restore has to read. */
const CHAIN_MAX = 64
/** Of the catalog's own backups only the newest are kept. */
const CATALOG_KEEP = 3
const VERSION_ATTEMPTS = 5
const PAGE_DEFAULT = 100
const PAGE_MAX = 1_000

/**
 * Backups of cells in the object store: snapshots, incrementals, and restores from them alone. Available as
 * `store.backups`.
 */
export class BackupManager {
  readonly #c: BackupComponents
  readonly #catalogue: BackupCatalogue
  readonly #trackers = new Map<string, ChangeTracker>()
  /** Per cell, the last of the backups and restores that wait for each other. */
  readonly #queues = new Map<string, Promise<unknown>>()
  readonly #restoring = new Set<string>()
  readonly #recoveries = new Map<string, Promise<void>>()
  readonly #abort = new AbortController()
  #claimed: Promise<void> | undefined

  /** @internal Comes with a store, as `store.backups`. */
  constructor(components: BackupComponents) {
    this.#c = components
    this.#catalogue = new BackupCatalogue(components.objectStore, components.storeId)
  }

  /**
   * Stores the whole cell as one object. Writers go on meanwhile.
   *
   * @throws `cell_not_found`, `busy`, `object_store_unavailable`, `object_store_error`, `object_store_mismatch`
   */
  snapshot(cellId: string, options: BackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'snapshot', options)
  }

  /**
   * Stores what has changed since the newest backup; the whole cell if there is none to go on from (`baseVersion: null`).
   *
   * @throws as {@link snapshot}
   */
  incremental(cellId: string, options: BackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'incremental', options)
  }

  /**
   * Restores a cell to a version, also a deleted one and one with no local data. Until the new database is complete and
   * proven the old one serves; then they are switched as a unit. A failure changes nothing.
   *
   * @throws `invalid_version`, `backup_not_found`, `backup_corrupt`, `restore_in_progress`, `cell_not_found`,
   * `object_store_unavailable`, `object_store_error`
   */
  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    if (cellId === this.#c.storeId) throw cellNotFound()
    if (options.version !== undefined) checkVersion(options.version, cellId)
    if (this.#restoring.has(cellId)) {
      throw new CellError('restore_in_progress', 'The cell is being restored already. Wait for that to end.')
    }
    this.#restoring.add(cellId)
    try {
      const result = await this.#inTurn(cellId, () =>
        this.#restoreNow(cellId, { ...options, signal: this.#signal(options.signal) }),
      )
      await this.#c.catalogStored()
      return result
    } finally {
      this.#restoring.delete(cellId)
    }
  }

  /**
   * The versions there are, newest first.
   *
   * @param options.accountId only if the cell is this account's
   * @throws `cell_not_found` for a cell that neither the catalog nor the object store knows; `invalid_request`
   */
  async list(
    cellId: string,
    options: {
      cursor?: string | undefined
      limit?: number | undefined
      accountId?: string | undefined
      signal?: AbortSignal | undefined
    } = {},
  ): Promise<BackupList> {
    const { cursor, limit = PAGE_DEFAULT, accountId, signal } = options
    if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX) {
      throw new CellError('invalid_request', `limit is a whole number from 1 to ${PAGE_MAX}.`, {
        field: 'limit',
        limit: PAGE_MAX,
      })
    }
    if (cellId === this.#c.storeId) throw cellNotFound()
    const known = this.#c.subjects.record(cellId)
    const all = await this.#catalogue.versions(cellId, { signal })
    const first =
      cursor === undefined ? 0 : all.findIndex(({ version }) => version < decodeCursor(cursor, cellId))
    const from = first === -1 ? all.length : first
    const page = await this.#catalogue.describe(cellId, all.slice(from, from + limit), { signal })
    if (known === undefined) await this.#checkOwner(cellId, all[0]?.version, accountId, signal)
    const last = all[from + limit - 1]?.version
    return {
      backups: page,
      nextCursor: last !== undefined && from + limit < all.length ? encodeCursor(last) : null,
    }
  }

  /** The newest backup, or undefined. One listing, and at most one read. */
  async latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    const all = await this.#catalogue.versions(cellId, { signal })
    const [info] = await this.#catalogue.describe(cellId, all.slice(0, 1), { signal })
    return info
  }

  /**
   * Backs up the catalog.
   *
   * @internal
   */
  async backupCatalog(signal?: AbortSignal): Promise<void> {
    const { storeId, storeCreatedAt } = this.#c
    const identity: CellIdentity = {
      store_id: storeId,
      cell_id: storeId,
      account_id: null,
      name: 'catalog',
      cell_created_at: new Date(storeCreatedAt).toISOString(),
      durability: null,
    }
    await this.#inTurn(storeId, () => this.#backupNow(identity, 'incremental', { signal }))
    await this.#prune(storeId, CATALOG_KEEP, signal)
  }

  /**
   * Cells that changed since their newest backup, for the schedule.
   *
   * @internal
   */
  changed(): BackupProgress[] {
    return this.#c.progress
      .changed()
      .filter(({ cellId }) => this.#c.subjects.record(cellId)?.deletedAt === null)
  }

  /**
   * The tracker of a cell, made when it is first asked for.
   *
   * @internal
   */
  tracker(cellId: string): ChangeTracker {
    let tracker = this.#trackers.get(cellId)
    if (tracker === undefined) {
      const { subjects, progress, clock, onChange } = this.#c
      tracker = new ChangeTracker(cellId, subjects.paths(cellId), progress, clock, () => onChange(cellId))
      this.#trackers.set(cellId, tracker)
    }
    return tracker
  }

  /**
   * Called when a cell was closed: what its tracker knows is in the local state.
   *
   * @internal
   */
  closed(cellId: string): void {
    if (!this.#queues.has(cellId)) this.#trackers.delete(cellId)
  }

  /**
   * Called when a cell was deleted.
   *
   * @internal
   */
  forgetLocal(cellId: string): void {
    this.#trackers.delete(cellId)
    this.#c.progress.remove(cellId)
  }

  /**
   * Makes sure that a cell's data is here: one whose local files are gone comes back from its newest backup, and never
   * shows an empty database (invariant 14). Calls that come meanwhile share the one restore.
   *
   * @throws `no_backup` if there is none; as {@link restore}
   */
  ensureLocal(cellId: string): Promise<void> {
    if (this.#c.subjects.isLocal(cellId)) return Promise.resolve()
    let recovery = this.#recoveries.get(cellId)
    if (recovery === undefined) {
      recovery = this.#recover(cellId).finally(() => this.#recoveries.delete(cellId))
      this.#recoveries.set(cellId, recovery)
    }
    return recovery
  }

  /**
   * Takes no more calls, waits for what is under way, and gives that up at the deadline.
   *
   * @internal
   */
  async stop(deadline: AbortSignal): Promise<void> {
    const abort = () => this.#abort.abort()
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    while (this.#queues.size > 0) await Promise.allSettled(this.#queues.values())
    deadline.removeEventListener('abort', abort)
  }

  /** Ends with the caller's signal, and when the store gives up. */
  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
  }

  async #backup(cellId: string, kind: BackupKind, options: BackupOptions): Promise<BackupResult> {
    const record = this.#c.subjects.record(cellId)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    const identity: CellIdentity = {
      store_id: this.#c.storeId,
      cell_id: cellId,
      account_id: record.accountId,
      name: record.name,
      cell_created_at: new Date(record.createdAt).toISOString(),
      durability: record.durability,
    }
    await this.ensureLocal(cellId)
    const result = await this.#inTurn(cellId, () =>
      this.#backupNow(identity, kind, { ...options, signal: this.#signal(options.signal) }),
    )
    // Whoever restores it from nothing needs the account and the key: they are in the catalog.
    await this.#c.catalogStored()
    await this.#prune(cellId, this.#c.keep, options.signal)
    return result
  }

  async #backupNow(identity: CellIdentity, kind: BackupKind, options: BackupOptions): Promise<BackupResult> {
    const { objectStore, clock, spoolDirectory, subjects, storeId } = this.#c
    this.#claimed ??= claimPrefix(objectStore, storeId, clock.now(), options)
    await this.#claimed.catch((error) => {
      this.#claimed = undefined
      throw error
    })
    const { database, unpin } = subjects.pin(identity.cell_id)
    try {
      const tracker = this.tracker(identity.cell_id)
      const backup = new CellBackup(
        { store: objectStore, clock, spoolDirectory },
        identity,
        database,
        tracker,
        options,
      )
      for (let attempt = 1; ; attempt++) {
        const { version, time } = await this.#nextVersion(identity.cell_id, tracker, options.signal)
        try {
          const chain = kind === 'incremental' ? tracker.provenChain(this.#chainMax(identity.cell_id)) : null
          return chain === null
            ? await backup.base(version, kind, time)
            : await backup.incremental(version, chain, time)
        } catch (error) {
          // The stamp is taken, by a version that this machine knew nothing of: take a later one.
          if (!isCellError(error, 'object_exists') || attempt === VERSION_ATTEMPTS) throw error
          tracker.progress.lastVersion = version
        }
      }
    } finally {
      unpin()
    }
  }

  async #recover(cellId: string): Promise<void> {
    await this.#inTurn(cellId, async () => {
      // A restore that was asked for may have come first.
      if (this.#c.subjects.isLocal(cellId)) return
      await this.#restoreNow(cellId, { signal: this.#abort.signal })
    }).catch((error) => {
      if (!isCellError(error, 'backup_not_found')) throw error
      throw new CellError(
        'no_backup',
        "The cell's local data is lost, and it has no backup to come back from.",
      )
    })
  }

  /** With few versions to keep, long chains would keep many more alive. */
  #chainMax(cellId: string): number {
    const keep = cellId === this.#c.storeId ? undefined : this.#c.keep
    return keep === undefined ? CHAIN_MAX : Math.max(2, Math.min(CHAIN_MAX, keep))
  }

  /** Later than every version there is, also when the clock has stepped back. */
  async #nextVersion(
    cellId: string,
    tracker: ChangeTracker,
    signal?: AbortSignal,
  ): Promise<{ version: string; time: number }> {
    const newest =
      tracker.progress.lastVersion ?? (await this.#catalogue.versions(cellId, { signal }))[0]?.version
    const after = newest === undefined ? 0 : (parseVersion(newest)?.time ?? 0)
    const time = Math.max(this.#c.clock.now(), after + 1)
    return { version: versionOf(cellId, time), time }
  }

  async #restoreNow(cellId: string, options: RestoreOptions): Promise<RestoreResult> {
    const { objectStore, clock, storeId, subjects } = this.#c
    const { signal, onProgress } = options
    const started = clock.monotonic()
    const newest = (await this.#catalogue.versions(cellId, { signal }))[0]?.version
    const version = options.version ?? newest
    if (version === undefined) throw backupNotFound()
    const manifest = await this.#catalogue.manifest(version, cellId, { signal })
    if (options.accountId !== undefined && manifest.account_id !== options.accountId) throw cellNotFound()
    const paths = subjects.paths(cellId)
    if (!subjects.isOpen(cellId)) finishRestore(paths)
    const sizeBytes = await buildIncoming(objectStore, manifest, { storeId, cellId }, paths, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
    })
    try {
      signal?.throwIfAborted()
    } catch (error) {
      discardIncoming(paths)
      throw error
    }
    subjects.replace(cellId, () => installRestored(paths))
    this.#beginHistory(cellId, newest, version !== newest)
    subjects.restored(cellId, manifest)
    return { version, kind: manifest.kind, sizeBytes, durationMs: clock.monotonic() - started }
  }

  /**
   * After a restore the next backup is a base. A cell that was set back is changed: until it is backed up, the newest
   * version in the object store is not the state that it is in.
   */
  #beginHistory(cellId: string, newest: string | undefined, changed: boolean): void {
    const now = this.#c.clock.now()
    this.#trackers.delete(cellId)
    this.#c.progress.save({
      cellId,
      chain: null,
      lastVersion: newest ?? null,
      dirty: changed,
      dirtySinceSnapshot: changed,
      lastBackupAt: now,
      lastSnapshotAt: now,
    })
    if (changed) this.#c.onChange(cellId)
  }

  async #checkOwner(
    cellId: string,
    newest: string | undefined,
    accountId: string | undefined,
    signal?: AbortSignal,
  ): Promise<void> {
    if (newest === undefined) throw cellNotFound()
    const manifest: Manifest = await this.#catalogue.manifest(newest, cellId, { signal })
    if (accountId !== undefined && manifest.account_id !== accountId) throw cellNotFound()
  }

  /** The backup is stored whatever becomes of this: old versions that could not be removed go the next time. */
  async #prune(cellId: string, keep: number | undefined, signal?: AbortSignal): Promise<void> {
    if (keep === undefined) return
    try {
      await pruneVersions(this.#c.objectStore, this.#catalogue, cellId, keep, { signal })
    } catch (error) {
      if (!(error instanceof CellError) && !signal?.aborted) throw error
    }
  }

  /** One backup or restore of a cell at a time, in the order they were asked for. */
  async #inTurn<T>(cellId: string, run: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(cellId) ?? Promise.resolve()
    const mine = before.then(run, run).catch((error) => {
      throw toBackupError(error)
    })
    const settled = mine.then(
      () => {},
      () => {},
    )
    this.#queues.set(cellId, settled)
    try {
      return await mine
    } finally {
      if (this.#queues.get(cellId) === settled) {
        this.#queues.delete(cellId)
        if (!this.#c.subjects.isOpen(cellId)) this.#trackers.delete(cellId)
      }
    }
  }
}

/** Faults of the local disk; an abort stays what it is. */
function toBackupError(error: unknown): unknown {
  if (error instanceof CellError || !(error instanceof Error) || error.name === 'AbortError') return error
  if ('code' in error && error.code === 'ENOSPC') {
    return new CellError('disk_full', 'The disk is full; the backup or restore was given up.', {
      cause: error,
    })
  }
  return new CellError('internal', 'The backup or restore failed unexpectedly.', { cause: error })
}

function encodeCursor(version: string): string {
  return Buffer.from(version).toString('base64url')
}

function decodeCursor(cursor: string, cellId: string): string {
  const version = Buffer.from(cursor, 'base64url').toString()
  if (parseVersion(version)?.cellId === cellId) return version
  throw new CellError('invalid_request', 'cursor is not one that a listing returned.', { field: 'cursor' })
}
