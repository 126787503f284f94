import type { Clock } from '../../base/clock.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { claimPrefix } from './store-identity.ts'

/**
 * This store's right to its prefix, asked for once (invariant 14). It also tells one prefix from the next: in another
 * one nothing is stored yet, whatever the local state says.
 */
export class ObjectStoreClaim {
  readonly #store: ObjectStore
  readonly #storeId: string
  readonly #clock: Clock
  readonly #progress: BackupProgressTable
  readonly #onNewTarget: () => void
  readonly #signal: AbortSignal
  #claimed: Promise<void> | undefined

  /** @param signal ends it with the store: not with the first of those that wait for it */
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
   * @param signal ends this wait; the claim goes on for others who wait for it
   * @throws `object_store_mismatch` if the prefix belongs to another store, `object_store_unavailable`,
   * `object_store_error`, the signal's reason
   */
  async ensure(signal?: AbortSignal): Promise<void> {
    this.#claimed ??= this.#claim()
    await unlessAborted(this.#claimed, signal)
  }

  /** Something that was stored is gone: asks again before the next backup. */
  invalidate(): void {
    this.#claimed = undefined
  }

  async #claim(): Promise<void> {
    try {
      const identity = await claimPrefix(this.#store, this.#storeId, this.#clock.now(), {
        signal: this.#signal,
      })
      if (this.#progress.setTarget(identity.claim_id)) this.#onNewTarget()
    } catch (error) {
      this.#claimed = undefined
      throw error
    }
  }
}

function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abandon = () => reject(signal.reason)
    if (signal.aborted) abandon()
    signal.addEventListener('abort', abandon, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abandon))
  })
}
