import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { RememberedObjectStore } from '../../catalog/remembered-object-store.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import type { EpochGuard } from './epoch-guard.ts'
import { recordKey } from './fence-tail.ts'
import { encodeRecord, type HolderPlace } from './holder-record.ts'

/** A record is written after this share of the lease, and up to a sixth of that later: of 90 s, after 60 to 70 s. */
const WRITE_AFTER = 2 / 3
const JITTER = 1 / 6
const RETRY_AFTER = 1 / 18
const CLOSE_MS_MAX = 5_000
const NOT_WRITTEN =
  'could not write the record that says that this node uses the object store; trying again, and after its lease another machine may use it'

export interface HolderRecordsParts {
  /** As it is, without a guard. */
  store: ObjectStore
  guard: EpochGuard
  remembered: RememberedObjectStore
  here: HolderPlace
  leaseMs: number
  clock: Clock
  random: () => number
  log: Log
}

/** The records of the node that holds an epoch, one after the other: what it says of itself. */
export class HolderRecords {
  readonly #parts: HolderRecordsParts
  readonly #instance: string
  readonly #onMissing: (options: CallOptions) => Promise<void>
  readonly #abort = new AbortController()
  /** Of the newest record that was written, or that was tried. */
  #sequence = 0
  /** Of the newest record that is stored; 0 is the fence. */
  #stored = 0
  /** That one is missing, and what follows from it is done. */
  #isMissing = false
  /** The last record could not be written. */
  #isLate = false
  /** Records that the next one replaces. */
  #obsolete: string[] = []
  #timer: Timer | undefined
  #writing: Promise<void> | undefined

  /** @param onMissing called if the newest record is no longer stored; the next one is written once it resolves */
  constructor(
    parts: HolderRecordsParts,
    instance: string,
    onMissing: (options: CallOptions) => Promise<void>,
  ) {
    this.#parts = parts
    this.#instance = instance
    this.#onMissing = onMissing
  }

  /** The fence is stored: a record follows from time to time. @param obsolete records of earlier nodes */
  start(obsolete: readonly string[]): void {
    this.#obsolete = [...obsolete]
    this.#writeLater(this.#intervalMs())
  }

  stop(): void {
    this.#abort.abort()
    this.#timer?.cancel()
  }

  /** Resolves once no record is being written. */
  async settled(): Promise<void> {
    await this.#writing
  }

  /** Says that the node stops: the next one need not wait. */
  async writeLast(deadline: AbortSignal): Promise<void> {
    const { guard, clock, log, leaseMs } = this.#parts
    const abort = new AbortController()
    const timer = clock.setTimer(() => abort.abort(), CLOSE_MS_MAX)
    const signal = deadline.aborted ? abort.signal : AbortSignal.any([deadline, abort.signal])
    try {
      await guard.confirm({ signal })
      // If the newest one is missing, the next start has to see that.
      if (await this.#isStored({ signal })) await this.#write(true, { signal })
    } catch (err) {
      log.warn({ err, leaseMs }, 'could not say that this node stops; another machine waits for its lease')
    } finally {
      timer.cancel()
    }
  }

  encode(epoch: number, sequence: number, closed = false): Buffer {
    const { here, clock, leaseMs } = this.#parts
    const written_at = new Date(clock.now()).toISOString()
    const instance = this.#instance
    return encodeRecord({ epoch, sequence, instance, ...here, written_at, lease_ms: leaseMs, closed })
  }

  #intervalMs(): number {
    const { leaseMs, random } = this.#parts
    return leaseMs * WRITE_AFTER * (1 + random() * JITTER)
  }

  #writeLater(delayMs: number): void {
    const { clock } = this.#parts
    if (this.#abort.signal.aborted) return
    this.#timer = clock.setTimer(() => {
      this.#writing = this.#writeNext()
    }, delayMs)
  }

  async #writeNext(): Promise<void> {
    const { guard, leaseMs, log } = this.#parts
    const { signal } = this.#abort
    try {
      await guard.check({ signal })
      await this.#lookForNewest({ signal })
      await this.#write(false, { signal })
      this.#isLate = false
      this.#writeLater(this.#intervalMs())
    } catch (err) {
      if (signal.aborted) return
      if (!this.#isLate) log.warn({ err }, NOT_WRITTEN)
      this.#isLate = true
      this.#writeLater(leaseMs * RETRY_AFTER)
    }
  }

  /** It is there, unless somebody emptied the object store or set it back to an older copy. */
  async #lookForNewest(options: CallOptions): Promise<void> {
    if (this.#isMissing || (await this.#isStored(options))) return
    // A node that has taken over since the last look removes it, too.
    await this.#parts.guard.check(options)
    await this.#onMissing(options)
    this.#isMissing = true
  }

  async #isStored(options: CallOptions): Promise<boolean> {
    const { store, guard } = this.#parts
    const key = recordKey({ epoch: guard.epoch as number, sequence: this.#stored })
    return (await store.head(key, options)) !== undefined
  }

  /** A new object for each: nothing is ever overwritten. */
  async #write(closed: boolean, options: CallOptions): Promise<void> {
    const { store, guard, remembered } = this.#parts
    const { epoch } = guard
    if (epoch === undefined) return
    const sequence = ++this.#sequence
    const key = recordKey({ epoch, sequence })
    await remembered.write(store.url, { epoch, sequence, instance: this.#instance, stored: this.#stored })
    await store.put(key, bufferBody(this.encode(epoch, sequence, closed)), options)
    this.#stored = sequence
    this.#isMissing = false
    const obsolete = this.#obsolete
    this.#obsolete = [key]
    // What stays costs nothing but its place: only the newest record is read.
    await Promise.allSettled(obsolete.map((each) => store.delete(each, options)))
  }
}
