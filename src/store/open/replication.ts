import type { ArchiverClient } from '../../backup/archiver/archiver.ts'
import type { BackupManager } from '../../backup/backup-manager.ts'
import type { Flushed } from '../../backup/shipping/flushes.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { type Clock, delay } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreCore } from '../store-core.ts'

export interface ReplicationParts {
  /**
   * Ships what was committed before the call.
   *
   * @returns whether it leaves out the cell: because it has no history yet, or cannot be read
   */
  flush(cellId: string, signal: AbortSignal): Promise<Flushed>
  /** Brings a cell back whose data is lost. @throws `no_backup` */
  ensureLocal(cellId: string): Promise<void>
  /** Stores a version of the cell, and the cell in the catalog. */
  backUp(cellId: string): Promise<unknown>
  /** Stores what the catalog has changed before the call. */
  storeCatalog(): Promise<void>
  /** Whether the catalog in the object store has the cell. */
  isInStoredCatalog(cellId: string): boolean
  /** Whether the cell has the durability `remote`. */
  isRemote(cellId: string): boolean
  /** Whether the cell is `remote` on an object store that cannot keep its promise. */
  isUnproven(cellId: string): boolean
  /** Whether the cell is not deleted. */
  exists(cellId: string): boolean
  clock: Clock
  /** Milliseconds that a change waits for the object store. */
  waitMs: number
}

/** What a caller waits for. */
export interface ConfirmOptions {
  /** Ends the wait. */
  signal?: AbortSignal | undefined
  /** A commit that is under way: it counts, too. */
  commit?: Promise<unknown> | undefined
}

/** Between two tries while the object store fails. */
const RETRY_MS = 250

/** Waits until changes are in the object store, for the durability `remote`. */
export class Replication {
  readonly #parts: ReplicationParts
  /** First versions that are being stored, by cell. */
  readonly #versions = new Map<string, Promise<unknown>>()
  readonly #waits = new Set<{ cellId: string; isReplaced: boolean }>()

  constructor(parts: ReplicationParts) {
    this.#parts = parts
  }

  /**
   * Resolves once all that the cell has committed so far, or once `commit` has resolved, is in the object store, and this
   * node still was the one that writes there after that. All that wait at the same time share one object.
   *
   * @throws `not_replicated` once the wait is over, or if a restore has replaced the cell; `taken_over`; the signal's reason;
   * what the commit is refused with
   */
  async confirm(cellId: string, { signal: caller, commit }: ConfirmOptions = {}): Promise<void> {
    const wait = { cellId, isReplaced: false }
    // Before the commit is answered: a restore closes the cell, which ends a commit that waits, and replaces it in the same turn.
    this.#waits.add(wait)
    try {
      if (commit !== undefined) await commit
      await this.#until(async (signal) => {
        await this.#ship(cellId, signal)
        if (wait.isReplaced) throw replaced()
      }, caller)
    } finally {
      this.#waits.delete(wait)
    }
  }

  /** A restore has replaced what the cell had committed: what is shipped from here on shows nothing of it. */
  restored(cellId: string): void {
    for (const wait of this.#waits) if (wait.cellId === cellId) wait.isReplaced = true
  }

  /**
   * As {@link confirm}, for a cell that was made, if it is `remote`: without its record nobody finds what is stored of it. A creation may be
   * repeated once the cell is deleted, when its record is all that there is; or after a loss that left nothing but that.
   *
   * @throws `no_backup`
   */
  async confirmCell(cellId: string): Promise<void> {
    const { isRemote, exists, ensureLocal } = this.#parts
    if (!isRemote(cellId)) return
    await this.#until(async (signal) => {
      if (exists(cellId)) {
        await unlessAborted(ensureLocal(cellId), signal)
        await this.#ship(cellId, signal)
      }
      await this.#storeCatalog(signal)
    })
  }

  /** As {@link confirmCell}, for what only the catalog has: a cell's name, its deletion, its return. */
  async confirmRecord(cellId: string): Promise<void> {
    if (!this.#parts.isRemote(cellId)) return
    await this.#until((signal) => this.#storeCatalog(signal))
  }

  async #until(store: (signal: AbortSignal) => Promise<void>, caller?: AbortSignal): Promise<void> {
    const { clock, waitMs } = this.#parts
    const over = new AbortController()
    // Nothing else may keep the process that waits.
    const timer = clock.setTimer(() => over.abort(), waitMs, { keepsAlive: true })
    const signal = caller === undefined ? over.signal : AbortSignal.any([caller, over.signal])
    let cause: unknown
    try {
      while (!signal.aborted) {
        try {
          await store(signal)
          return
        } catch (error) {
          if (isFinal(error)) throw error
          if (!signal.aborted) cause = error
        }
        if (!signal.aborted) await delay(clock, RETRY_MS)
      }
    } finally {
      timer.cancel()
    }
    caller?.throwIfAborted()
    throw notReplicated(waitMs, cause)
  }

  /** @throws `not_replicated` if the cell was deleted meanwhile: nobody has it any more, so that nothing shows what was shipped */
  async #ship(cellId: string, signal: AbortSignal): Promise<void> {
    const { exists } = this.#parts
    await this.#shipCommits(cellId, signal).catch((error) => {
      throw exists(cellId) ? error : deleted(error)
    })
    if (!exists(cellId)) throw deleted()
  }

  async #shipCommits(cellId: string, signal: AbortSignal): Promise<void> {
    const { withoutHistory, unreadable } = await unlessAborted(this.#parts.flush(cellId, signal), signal)
    if (unreadable.includes(cellId)) throw new Error('The files of the cell cannot be read.')
    if (withoutHistory.includes(cellId)) await this.#storeVersion(cellId, signal)
    // A restore may have brought it back just now, or its making may still wait for the catalog: without its record nobody finds it.
    if (!this.#parts.isInStoredCatalog(cellId)) await this.#storeCatalog(signal)
    // Only now this node has entered its prefix for sure: with nothing to ship, the version was the first that asked.
    if (this.#parts.isUnproven(cellId)) throw unproven()
  }

  async #storeCatalog(signal: AbortSignal): Promise<void> {
    await unlessAborted(this.#parts.storeCatalog(), signal)
  }

  async #storeVersion(cellId: string, signal: AbortSignal): Promise<void> {
    // One that has begun before may lack the newest commits.
    await unlessAborted(this.#versions.get(cellId)?.catch(() => {}) ?? Promise.resolve(), signal)
    await unlessAborted(this.#versions.get(cellId) ?? this.#firstVersion(cellId), signal)
  }

  /** Changes that wait for the first version of a cell at the same time share it. */
  #firstVersion(cellId: string): Promise<unknown> {
    // It goes on when the one that began it no longer waits: others do.
    const version = this.#parts.backUp(cellId).finally(() => this.#versions.delete(cellId))
    this.#versions.set(cellId, version)
    return version
  }
}

export function replicationOf(
  core: StoreCore,
  archiver: ArchiverClient,
  backups: BackupManager,
): Replication {
  const { clock, settings } = core
  const replication = new Replication({
    flush: (cellId, signal) => archiver.flush(signal, { cells: [cellId] }),
    ensureLocal: (id) => backups.ensureLocal(id),
    // Not in the background: the catalog is stored, too, before it is acknowledged.
    backUp: (id) => backups.backup(id, 'incremental', { origin: 'schedule' }, 'requested'),
    storeCatalog: () => core.catalogStored(),
    isInStoredCatalog: (id) => core.catalogBackup?.hasStored(id) ?? true,
    isRemote: (id) => core.isRemote(id),
    // A store that is `remote` itself does not start there.
    isUnproven: (id) => core.guard?.excludesOthers === false && core.findCell(id)?.durability === 'remote',
    exists: (id) => core.findCell(id)?.deletedAt === null,
    clock,
    waitMs: settings.backups.remoteWaitMs,
  })
  core.lifecycle.restores.listen((id) => replication.restored(id))
  return replication
}

/** Another try would end in the same way. */
function isFinal(error: unknown): boolean {
  if (!isCellError(error)) return false
  return error.kind === 'closed' || error.code === 'not_replicated' || error.code === 'no_backup'
}

function unproven(): CellError {
  return new CellError(
    'not_replicated',
    'The change is committed on this machine and in the object store. But that does not honour conditional writes (If-None-Match), so two nodes may both take themselves for the one that writes, and durability: remote promises more. Do not repeat it: look first.',
  )
}

function deleted(cause?: unknown): CellError {
  return new CellError(
    'not_replicated',
    'The change was committed on this machine, and then the cell was deleted, before it was known that the change is in the object store. A restore of the cell may lack it.',
    { cause },
  )
}

function replaced(): CellError {
  return new CellError(
    'not_replicated',
    // A worker's commit right after the switch may be told of before the switch is.
    'The change was committed on this machine while a restore replaced its cell, before it was known that the change is in the object store. The restored cell may have it or lack it, and so may a restore to its time. Do not repeat it: look first.',
  )
}

function notReplicated(limit: number, cause: unknown): CellError {
  return new CellError(
    'not_replicated',
    `The change is committed on this machine, but it was not in the object store within ${limit} ms (backups.remoteWaitMs). It will be shipped as soon as that is possible. Do not repeat it: look first.`,
    { limit, cause },
  )
}
