import { CellError, isCellError } from '../../../errors.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { type LogNumber, logKey, parseLogKey } from '../../versions/object-keys.ts'
import type { EpochView } from '../log-port.ts'
import { findLastLog, sha256OfObject } from '../stored/last-log.ts'
import type { LogManifest } from './log-manifest.ts'
import type { LogObject } from './log-object.ts'

/** Looks for the newest object, each of which may just have been removed. */
const LOOKS_MAX = 3

/** The number of the next log object, and what it continues. */
export type NextLog = Pick<LogManifest, 'epoch' | 'number' | 'previous'>

/**
 * Gives log objects their numbers: within an epoch from 1 on, without gaps. A number is used for one object only. If nobody
 * knows whether the object was stored, the same bytes are put under the same number again.
 */
export class LogSequence {
  readonly #store: ObjectStore
  readonly #epoch: EpochView
  /** The last one that is stored, of this epoch or an earlier one; null if there is none. */
  #last: { key: string; sha256: string } | null | undefined

  /** @param store writes for the newest epoch only */
  constructor(store: ObjectStore, epoch: EpochView) {
    this.#store = store
    this.#epoch = epoch
  }

  get lastKey(): string | null {
    return this.#last?.key ?? null
  }

  /** Asks the object store only the first time, after this node has made its fence. @throws as `EpochView.confirm` */
  async next(options: CallOptions = {}): Promise<NextLog> {
    await this.#epoch.confirm(options)
    const epoch = this.#epoch.epoch as number
    this.#last ??= await this.#find(epoch, options)
    const last = this.#last && (parseLogKey(this.#last.key) as LogNumber)
    return { epoch, number: last?.epoch === epoch ? last.number + 1 : 1, previous: this.#last }
  }

  /**
   * @returns whether the object is stored and counts. Otherwise another one has its number: an earlier process of this node
   * had put that, and its answer came late. Make this one again.
   * @throws what the object store throws; then put it again
   */
  async store({ manifest: { key }, body, sha256 }: LogObject, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#store.put(key, body, options)
    } catch (error) {
      if (!isCellError(error, 'object_exists')) throw error
      const found = await sha256OfObject(this.#store, key, options)
      if (found === undefined) throw error
      await this.#epoch.check(options)
      this.#last = { key, sha256: found }
      return found === sha256
    }
    this.#last = { key, sha256 }
    return true
  }

  async #find(epoch: number, options: CallOptions): Promise<{ key: string; sha256: string } | null> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const last = await findLastLog(this.#store, epoch, options)
      if (last === undefined) return null
      const key = logKey(last)
      const sha256 = await sha256OfObject(this.#store, key, options)
      if (sha256 !== undefined) return { key, sha256 }
      // It was removed in between.
    }
    throw new CellError(
      'object_store_unavailable',
      'The newest log object is listed, and is not there. The listing lags: try again.',
    )
  }
}
