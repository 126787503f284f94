import { Emitter } from '../../base/async/emitter.ts'
import type { Clock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { fenceKey } from '../versions/object-keys.ts'
import { describeHolder, readRecord } from './holder-record.ts'

/**
 * A write needs no look of its own if the last one is at most so old. A node that slept longer than that looks before it
 * writes, so one that was taken over meanwhile writes nothing more. Longer than the default lag of shipping, so that a tick
 * looks once: after its PUT.
 */
const FRESH_MS = 15_000

/** By both clocks that nobody sets. */
interface Moment {
  monotonic: number
  sinceBoot: number
}

/**
 * What a writer needs to know of its epoch: whether it is still the newest one. What was stored counts only if the look
 * after it finds no newer fence. A new node makes its fence before it reads anything: so a write that it did not see ended
 * after the fence existed, and its writer sees the fence.
 */
export class EpochGuard {
  readonly #store: ObjectStore
  readonly #clock: Clock
  /** Emitted once, with `taken_over`: another node has a newer epoch. */
  readonly lost = new Emitter<[CellError]>()
  /** Emitted with each epoch that this node takes. */
  readonly held = new Emitter<[number]>()
  /** Tries to take an epoch that could not be taken at the start; it rejects if that fails again. */
  acquire: (options: CallOptions) => Promise<void> = async () => {
    throw notTaken()
  }
  #epoch: number | undefined
  #excludesOthers: boolean | undefined
  #failure: CellError | undefined
  #confirmedAt: Moment = { monotonic: Number.NEGATIVE_INFINITY, sinceBoot: Number.NEGATIVE_INFINITY }

  /** @param store as it is, without a guard */
  constructor(store: ObjectStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Undefined until one is held. */
  get epoch(): number | undefined {
    return this.#epoch
  }

  /**
   * Whether the object store lets only one node make a fence. Otherwise two may both take themselves for the one that writes.
   * Undefined until an epoch is held.
   */
  get excludesOthers(): boolean | undefined {
    return this.#excludesOthers
  }

  /** Why it is lost. */
  get failure(): CellError | undefined {
    return this.#failure
  }

  /** This node's fence is the newest one. */
  hold(epoch: number, excludesOthers?: boolean): void {
    this.#epoch = epoch
    this.#excludesOthers = excludesOthers
    this.#confirmedAt = this.#now()
    this.held.emit(epoch)
  }

  /** Nothing is written after this. */
  lose(failure: CellError): void {
    if (this.#failure !== undefined) return
    this.#failure = failure
    this.lost.emit(failure)
  }

  /** @throws `taken_over` */
  assertNotLost(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Call before a write. @throws `taken_over`, `object_store_unavailable` */
  async confirm(options: CallOptions = {}): Promise<void> {
    this.assertNotLost()
    if (this.#epoch === undefined) await this.acquire(options)
    else if (!this.#isFresh(this.#confirmedAt)) await this.check(options)
  }

  /**
   * Call before a write that extends history.
   *
   * @returns tells whether so little time has passed since that another node has hardly gone on from what was written
   */
  beginWrite(): () => boolean {
    const begunAt = this.#now()
    return () => this.#isFresh(begunAt)
  }

  /** Call after a write that extends history: it counts if this resolves. @throws `taken_over`, what the store throws */
  async check(options: CallOptions = {}): Promise<void> {
    this.assertNotLost()
    if (this.#epoch === undefined) throw notTaken()
    const lookedAt = this.#now()
    const newer = fenceKey(this.#epoch + 1)
    if ((await this.#store.head(newer, options)) !== undefined) {
      const holder = await readRecord(this.#store, newer, options).catch(() => undefined)
      this.lose(
        takenOver(
          `Another node has taken over ${this.#store.url} (${describeHolder(holder)}). This one serves no longer, and what it was given since its last backup is in its directory alone.`,
        ),
      )
    }
    this.assertNotLost()
    // Of two looks at the same time, the later one counts.
    if (lookedAt.sinceBoot > this.#confirmedAt.sinceBoot) this.#confirmedAt = lookedAt
  }

  /** The monotonic clock may stand still while the machine sleeps, and the other one may not count all of it either. */
  #isFresh(at: Moment): boolean {
    const { monotonic, sinceBoot } = this.#now()
    return Math.max(monotonic - at.monotonic, sinceBoot - at.sinceBoot) <= FRESH_MS
  }

  #now(): Moment {
    return { monotonic: this.#clock.monotonic(), sinceBoot: this.#clock.sinceBoot() }
  }
}

export function takenOver(message: string, cause?: unknown): CellError {
  return new CellError('taken_over', message, { cause })
}

function notTaken(): CellError {
  return new CellError(
    'object_store_unavailable',
    'The object store has not answered since this node started, so the node does not know yet whether another one uses it.',
  )
}
