import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { CellError } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import type { RestoreOptions } from './backup-types.ts'

/**
 * What is under way with the backups of each cell. A purge is never beside a restore of the cell, nor beside a note of retention that is
 * being stored: a note that came after the purge's listing would stay for good. A restore ends the removal of old versions of its cell.
 */
export class WorkInProgress {
  readonly #requested = new Set<string>()
  readonly #removals = new Set<Removals>()
  readonly #notes = new Set<{ cellId: string; ended: Promise<unknown> }>()
  readonly #purged = new Set<string>()
  readonly #purgedOfNotes = new Set<string>()
  readonly #recoveries = new Map<string, Recovery>()

  /**
   * Runs a requested restore.
   *
   * @param signal ends the wait for a removal that is under way
   * @throws `restore_in_progress` if another one of the cell waits or runs, `busy` during a purge and if it is aborted
   */
  async request<T>(cellId: string, restore: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#purged.has(cellId)) throw purgeInProgress()
    if (this.#requested.has(cellId)) throw restoreInProgress()
    this.#requested.add(cellId)
    try {
      await this.endRemovals(cellId, signal)
      return await restore()
    } finally {
      this.#requested.delete(cellId)
    }
  }

  /**
   * Resolves once no removal of a version of the cell is under way. None follows of those that have begun to remove versions. The object
   * store may take long for one, and the caller may go away meanwhile.
   */
  async endRemovals(cellId: string, signal: AbortSignal | undefined): Promise<void> {
    const removals = [...this.#removals].filter((each) => each.cellId === cellId)
    await unlessAborted(Promise.all(removals.map((each) => each.end())), signal).catch((error) => {
      throw toBackupError(error, signal)
    })
  }

  /**
   * Versions of a cell are going to be removed, one after the other. A restore of the cell may need any of them, and its mark names
   * one: it waits for the removal that is under way, and no other follows.
   */
  async removing<T>(cellId: string, run: (removals: Removals) => Promise<T>): Promise<T> {
    const removals = new Removals(cellId, this.#requested.has(cellId))
    this.#removals.add(removals)
    try {
      return await run(removals)
    } finally {
      this.#removals.delete(removals)
    }
  }

  /** Resolves once no removal of a version of the cell that had begun is under way. Others may follow. */
  async removed(cellId: string): Promise<void> {
    for (const removals of this.#removals) if (removals.cellId === cellId) await removals.underWay
  }

  /** Runs the purge of a deleted cell. @throws `restore_in_progress`; `busy` during another purge of it */
  async purge<T>(cellId: string, purge: () => Promise<T>): Promise<T> {
    if (this.#requested.has(cellId)) throw restoreInProgress()
    if (this.#purged.has(cellId)) throw purgeInProgress()
    this.#purged.add(cellId)
    try {
      return await purge()
    } finally {
      this.#purged.delete(cellId)
    }
  }

  /** Stores notes of retention. @throws `busy` during {@link purgeNotes} of the cell */
  async note<T>(cellId: string, store: () => Promise<T>): Promise<T> {
    if (this.#purgedOfNotes.has(cellId)) throw purgeInProgress()
    const stored = store()
    const mine = { cellId, ended: stored.catch(() => {}) }
    this.#notes.add(mine)
    try {
      return await stored
    } finally {
      this.#notes.delete(mine)
    }
  }

  /** Runs the part of a purge that removes notes, after those that are being stored. @throws the signal's reason */
  async purgeNotes<T>(cellId: string, purge: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    this.#purgedOfNotes.add(cellId)
    try {
      const own = [...this.#notes].filter((each) => each.cellId === cellId)
      await unlessAborted(Promise.all(own.map(({ ended }) => ended)), signal)
      return await purge()
    } finally {
      this.#purgedOfNotes.delete(cellId)
    }
  }

  /**
   * Runs the recovery of a cell whose local data is lost. Calls during a recovery share it.
   *
   * @param isWaiting a request waits for the cell
   * @param raise called if a recovery that nobody has waited for is now waited for
   */
  async recover(
    cellId: string,
    isWaiting: boolean,
    restore: () => Promise<void>,
    raise: () => void,
  ): Promise<void> {
    const known = this.#recoveries.get(cellId)
    const ended = known?.ended ?? restore().finally(() => this.#recoveries.delete(cellId))
    if (known !== undefined && isWaiting && !known.isWaiting) raise()
    this.#recoveries.set(cellId, { ended, isWaiting: isWaiting || known?.isWaiting === true })
    await ended
  }
}

/** Removals of versions of one cell, one after the other, until somebody needs the versions. */
export class Removals {
  readonly cellId: string
  #isEnded: boolean
  #underWay: Promise<unknown> | undefined

  constructor(cellId: string, isEnded: boolean) {
    this.cellId = cellId
    this.#isEnded = isEnded
  }

  /** @returns false if the removal was not done: none is done from here on */
  async next(remove: () => Promise<boolean>): Promise<boolean> {
    if (this.#isEnded) return false
    const removal = remove()
    this.#underWay = removal.catch(() => {})
    return await removal
  }

  get underWay(): Promise<unknown> | undefined {
    return this.#underWay
  }

  async end(): Promise<void> {
    this.#isEnded = true
    await this.#underWay
  }
}

interface Recovery {
  ended: Promise<void>
  isWaiting: boolean
}

function restoreInProgress(): CellError {
  return new CellError('restore_in_progress', 'A restore of this cell is running. Wait for its end.')
}

function purgeInProgress(): CellError {
  return new CellError('busy', 'What is left of this cell is being purged.')
}

type Permit = NonNullable<RestoreOptions['permit']>

/** The permits of the restores under way. A cell has at most one that was requested. */
export class RestorePermits {
  readonly #permits = new Map<string, Permit>()

  async during<T>(cellId: string, permit: Permit | undefined, restore: () => Promise<T>): Promise<T> {
    if (permit === undefined) return await restore()
    this.#permits.set(cellId, permit)
    try {
      return await restore()
    } finally {
      this.#permits.delete(cellId)
    }
  }

  /** The cell's restore is built. @throws what its permit refuses it with */
  checkBuilt(cellId: string, bytes: number): void {
    this.#permits.get(cellId)?.checkBuilt?.(bytes)
  }
}
