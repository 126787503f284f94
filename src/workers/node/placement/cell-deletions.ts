import { KeyedQueue } from '../../../base/fairness/keyed-queue.ts'
import { isCellError } from '../../../errors.ts'
import type { ServedDeleteOptions } from '../../../service/cell-service.ts'
import type { StoreCore } from '../../../store/store-core.ts'
import type { WorkerPool } from '../dispatch/worker-pool.ts'

export interface CellDeletionsParts {
  core: StoreCore
  workers: WorkerPool
  /** Stores what the cell has not stored yet, if the object store takes it in time. */
  storeLast(cellId: string): Promise<void>
  /** Resolves once the catalog's record of the cell is as safe as the cell's durability asks. */
  confirmRecord(cellId: string): Promise<void>
  /** @throws `store_closed`, `taken_over` */
  assertRunning(): void
}

/**
 * Deletes cells of a node: a last backup, then the record, then the files, which no worker has open by that time. A cell has one
 * deletion at a time: the next one finds it gone, or what a restore has brought back.
 */
export class CellDeletions {
  readonly #parts: CellDeletionsParts
  /** By cell. */
  readonly #deletions = new KeyedQueue()
  /** By account, one at a time: the thread pool serves its queue in the order of arrival. */
  readonly #removals = new KeyedQueue()
  /** The cells that are being marked as deleted, or are so and have their files in place. */
  readonly #leaving = new Map<string, Promise<unknown>>()

  constructor(parts: CellDeletionsParts) {
    this.#parts = parts
  }

  /** Resolves once no deletion is about to move the cell's files: what is built in their place from now on stays. */
  async untilMoved(cellId: string): Promise<void> {
    await this.#leaving.get(cellId)?.catch(() => {})
  }

  /** @throws `cell_not_found`, `store_closed`, what the permit and the catalog throw */
  async delete(cellId: string, options: ServedDeleteOptions): Promise<void> {
    await this.#deletions.run(cellId, () => this.#delete(cellId, options))
  }

  /** Resolves once no deletion is under way. */
  async idle(): Promise<void> {
    await this.#deletions.idle()
  }

  async #delete(cellId: string, options: ServedDeleteOptions): Promise<void> {
    const { workers, core, assertRunning, confirmRecord } = this.#parts
    assertRunning()
    const { accountId } = core.registry.require(cellId)
    // All that is acknowledged is in the last backup: what comes from here on waits, and then finds no cell.
    const resume = await workers.pause(cellId)
    const remove = await this.#takeOut(cellId, accountId, options).finally(resume)
    await this.#removals.run(accountId ?? '', remove)
    await confirmRecord(cellId)
  }

  /** Stores the cell a last time, and has it deleted with its files in place no more. @returns removes them */
  async #takeOut(
    cellId: string,
    accountId: string | null,
    options: ServedDeleteOptions,
  ): Promise<() => Promise<void>> {
    await this.#parts.storeLast(cellId)
    const leaving = this.#moveAside(cellId, accountId, options)
    this.#leaving.set(cellId, leaving)
    return await leaving.finally(() => this.#leaving.delete(cellId))
  }

  /** Marks the cell as deleted, and moves its files out of the way. @returns removes them */
  async #moveAside(
    cellId: string,
    accountId: string | null,
    options: ServedDeleteOptions,
  ): Promise<() => Promise<void>> {
    const { core, workers } = this.#parts
    const deletedAt = await this.#setDeleted(cellId, accountId, options)
    await workers.runTask({ task: 'release', cellId })
    await core.turns.next(accountId ?? '')
    // If a restore that began before brought the cell back, its files are new and stay. A record can also be forgotten.
    const record = core.findCell(cellId)
    if (record !== undefined && record.deletedAt !== deletedAt) return async () => {}
    return core.lifecycle.moveLocalAside(cellId, accountId)
  }

  /** @returns epoch milliseconds */
  async #setDeleted(
    cellId: string,
    accountId: string | null,
    { requestId, permit }: ServedDeleteOptions,
  ): Promise<number> {
    const { core, workers, assertRunning } = this.#parts
    const { lifecycle } = core
    await lifecycle.noteDeletion(cellId)
    try {
      // What many deletions wait for ends for all of them at once.
      await core.turns.next(accountId ?? '')
      assertRunning()
      permit?.check()
      return await core.durably(() => {
        const at = lifecycle.setDeleted(cellId, requestId)
        workers.forget(cellId)
        return at
      })
    } catch (error) {
      if (this.#isThere(cellId, error)) lifecycle.withdrawNote(cellId)
      throw error
    }
  }

  /** Whether the catalog has the cell as before. If its disk failed, only the next start can tell. */
  #isThere(cellId: string, error: unknown): boolean {
    if (isCellError(error, 'cell_quarantined')) return false
    try {
      return this.#parts.core.findCell(cellId)?.deletedAt === null
    } catch {
      return false
    }
  }
}
