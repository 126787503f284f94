import { randomUUID } from 'node:crypto'
import { readTail } from '../../backup/fence/fence-tail.ts'
import { encodeRecord, type HolderPlace, holderState } from '../../backup/fence/holder-record.ts'
import { bufferBody, type ObjectStore } from '../../backup/object-store/object-store.ts'
import { findLastLog } from '../../backup/shipping/stored/last-log.ts'
import { fenceKey, type LogNumber } from '../../backup/versions/object-keys.ts'
import type { Clock } from '../../base/clock.ts'
import { isCellError } from '../../errors.ts'

const ATTEMPTS_MAX = 20

/** What a taker does in the part of the bucket that another node writes. */
export class ForeignPrefix {
  readonly #store: ObjectStore
  readonly #here: HolderPlace
  readonly #clock: Clock

  /** @param store that part, without a guard @param here where this node runs */
  constructor(store: ObjectStore, here: HolderPlace, clock: Clock) {
    this.#store = store
    this.#here = here
    this.#clock = clock
  }

  /** Whether its node has ended for sure: it was stopped properly, or its process is gone from this machine. */
  async hasEnded(): Promise<boolean> {
    const tail = await readTail(this.#store, [], {})
    const state = holderState(tail?.record, this.#here, this.#clock.now())
    return state === 'dead' || state === 'stopped'
  }

  /** Puts the next fence: its node sees it before it acknowledges anything more in `remote`. @returns its epoch */
  async fence(): Promise<number> {
    const instance = randomUUID()
    for (let attempt = 1; ; attempt++) {
      const epoch = ((await readTail(this.#store, [], {}))?.epoch ?? 0) + 1
      const written_at = new Date(this.#clock.now()).toISOString()
      // Nobody waits for a sign of this one.
      const record = { ...this.#here, epoch, sequence: 0, instance, written_at, lease_ms: 0, closed: true }
      try {
        await this.#store.put(fenceKey(epoch), bufferBody(encodeRecord(record)))
        return epoch
      } catch (error) {
        // Another taker, or a start of the node itself.
        if (!isCellError(error, 'object_exists') || attempt === ATTEMPTS_MAX) throw error
      }
    }
  }

  /**
   * The newest log object before a fence. What comes later counts for nobody.
   *
   * @param fence what {@link fence} returned
   */
  async lastLog(fence: number): Promise<LogNumber | null> {
    return (await findLastLog(this.#store, fence - 1)) ?? null
  }
}
