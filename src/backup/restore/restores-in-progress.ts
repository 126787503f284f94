import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { CellError } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import { purgeInProgress } from '../versions/retention/notes-in-progress.ts'
import type { Removals } from '../versions/retention/removals.ts'

/**
 * The cells whose restore waits or runs, and those whose backups are being purged: never both. A restore ends the removal of old
 * versions of its cell.
 */
export class RestoresInProgress {
  readonly #requested = new Set<string>()
  readonly #removals = new Set<RemovalsOf>()
  readonly #purged = new Set<string>()
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
    const removals = new RemovalsOf(cellId, this.#requested.has(cellId))
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

class RemovalsOf implements Removals {
  readonly cellId: string
  #isEnded: boolean
  #underWay: Promise<unknown> | undefined

  constructor(cellId: string, isEnded: boolean) {
    this.cellId = cellId
    this.#isEnded = isEnded
  }

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
