import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import type { Clock } from '../../../base/clock.ts'
import type { BackupProgressTable } from '../../changes/progress-table.ts'
import type { ObjectStore } from '../../object-store/object-store.ts'
import { claimPrefix } from './store-identity.ts'

/**
 * This store's claim to its prefix, made once (invariant 14). The claim's id also shows whether the prefix is another one
 * than before: then nothing is stored there yet, even if the local state says so.
 */
export class ObjectStoreClaim {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #clock: Clock
  readonly #progress: BackupProgressTable
  readonly #onNewTarget: () => void
  readonly #signal: AbortSignal
  #claimed: Promise<void> | undefined
  #firstCatalog: string | undefined

  /** @param signal aborts the claim when the store closes; a single caller cannot abort it */
  constructor(
    store: ObjectStore,
    storeId: string,
    clock: Clock,
    progress: BackupProgressTable,
    onNewTarget: () => void,
    signal: AbortSignal,
  ) {
    this.#store = store
    this.#storeId = storeId
    this.#clock = clock
    this.#progress = progress
    this.#onNewTarget = onNewTarget
    this.#signal = signal
  }

  /**
   * @param signal ends this wait; the claim continues for other callers
   * @throws `object_store_mismatch` if the prefix belongs to another store, `object_store_unavailable`,
   * `object_store_error`, the signal's reason
   */
  async ensure(signal?: AbortSignal): Promise<void> {
    this.#claimed ??= this.#claim()
    await unlessAborted(this.#claimed, signal)
  }

  /** Call when a stored object is missing: the next backup checks the claim again. */
  invalidate(): void {
    this.#claimed = undefined
  }

  /** The version of the catalog that comes first in this prefix, and is never pruned; undefined before {@link ensure}. */
  get firstCatalog(): string | undefined {
    return this.#firstCatalog
  }

  async #claim(): Promise<void> {
    try {
      const identity = await claimPrefix(this.#store, this.#storeId, this.#clock.now(), {
        signal: this.#signal,
      })
      this.#firstCatalog = identity.first_catalog
      if (this.#progress.setTarget(identity.claim_id)) this.#onNewTarget()
    } catch (error) {
      this.#claimed = undefined
      throw error
    }
  }
}
