import { randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { unlessAborted } from '../../base/unless-aborted.ts'
import type { RememberedObjectStore } from '../../catalog/remembered-object-store.ts'
import { CellError, isCellError } from '../../errors.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import { fenceKey, holderKey } from '../versions/object-keys.ts'
import type { EpochGuard } from './epoch-guard.ts'
import { type FenceTail, readTail } from './fence-tail.ts'
import { describeHolder, encodeRecord } from './holder-record.ts'
import { type HolderPlace, holderState, runningInstances } from './holder-state.ts'
import { takeTicket } from './take-ticket.ts'

export const DEFAULT_LEASE_MS = 90_000
/** Nobody waits longer, whatever a record says. */
export const LEASE_MS_MAX = 3_600_000

/** A record is written after this share of the lease, and up to a sixth of that later: of 90 s, after 60 to 70 s. */
const WRITE_AFTER = 2 / 3
const JITTER = 1 / 6
const RETRY_AFTER = 1 / 18
const ATTEMPTS_MAX = 10
/** A directory remembers so many starts whose fence may still come: a put that is under way for longer has failed. */
const IN_DOUBT_MAX = 16
const CLOSE_MS_MAX = 5_000
const NOT_WRITTEN =
  'could not write the record that says that this node uses the object store; trying again, and after its lease another machine may use it'

export interface EpochHolderParts {
  /** As it is, without a guard. */
  store: ObjectStore
  guard: EpochGuard
  remembered: RememberedObjectStore
  here: HolderPlace
  leaseMs: number
  /** Takes the next epoch whoever has the newest, and whatever was written there. */
  takesOver: boolean
  /** Refuses an object store on whose conditional writes nobody can rely. */
  needsConditionalWrites?: boolean | undefined
  clock: Clock
  random: () => number
  log: Log
}

/** Nobody knows from here whether the node of the newest epoch still runs: its record tells, within its lease. */
export interface HolderWait {
  holder: string
  leftMs: number
}

/**
 * Takes an epoch for a node, and keeps the record of it up to date:
 *
 *     untaken ──tryTake──▶ held ──close──▶ closed
 *                           └──▶ lost: the guard has seen a newer fence; nothing more is written
 */
export class EpochHolder {
  readonly #parts: EpochHolderParts
  readonly #instance = randomUUID()
  readonly #abort = new AbortController()
  #sequence = 0
  /** The last record could not be written. */
  #isLate = false
  /** Records that the next one replaces. */
  #obsolete: string[] = []
  /** The record that this waits for to change, and since when, by the monotonic clock. */
  #watched: { name: string; since: number } | undefined
  #timer: Timer | undefined
  #writing: Promise<void> | undefined

  constructor(parts: EpochHolderParts) {
    this.#parts = parts
    parts.guard.lost.listen(() => this.#leave())
  }

  /**
   * Takes the next epoch, unless another node may hold the newest one.
   *
   * @param hasHistory the directory's state goes on with what the prefix holds
   * @param willTake called when nothing is in the way, with whether the prefix has history that the directory did not write; may throw
   * @returns undefined once it is taken; how long to wait before the next try
   * @throws `object_store_in_use`; `store_outdated` if the prefix has history that the directory did not write;
   * what the object store throws
   */
  async tryTake(
    hasHistory: boolean,
    options: CallOptions = {},
    willTake: (othersWrote: boolean) => void = () => {},
  ): Promise<HolderWait | undefined> {
    const { store, remembered, guard } = this.#parts
    for (let attempt = 1; ; attempt++) {
      const known = this.#position?.epoch ?? 0
      const tail = await readTail(store, known, options)
      const wait = tail && this.#judge(tail, hasHistory)
      if (wait !== undefined) return wait
      willTake(tail !== undefined && !this.#wrote(tail))
      // The next number, also if a fence of this directory could not be stored: writers look for the next one alone.
      const epoch = (tail?.epoch ?? known) + 1
      // On disk before it is in the object store: so the object store never has more than a directory knows of itself.
      const inDoubt = this.#inDoubt(epoch)
      await remembered.write(store.url, { epoch, sequence: 0, instance: this.#instance, inDoubt })
      // Before anybody can see the fence: in this process, it shows that the node lives.
      runningInstances.add(this.#instance)
      let excludesOthers: boolean
      try {
        excludesOthers = await this.#create(epoch, options)
      } catch (error) {
        runningInstances.delete(this.#instance)
        if (!isCellError(error, 'object_exists') || attempt === ATTEMPTS_MAX) throw error
        continue
      }
      if (tail !== undefined && tail.sequence > 0) this.#obsolete.push(holderKey(tail.epoch, tail.sequence))
      guard.hold(epoch, excludesOthers)
      this.#writeLater(this.#intervalMs())
      return undefined
    }
  }

  /** Whether the prefix has history that the directory did not write. */
  async isOutdated(options: CallOptions = {}): Promise<boolean> {
    const tail = await readTail(this.#parts.store, this.#position?.epoch ?? 0, options)
    return tail !== undefined && !this.#wrote(tail)
  }

  /** Whether the newest record of the prefix is the directory's own, under whichever URL the prefix was known. */
  async isKnown(options: CallOptions = {}): Promise<boolean> {
    const { store, remembered } = this.#parts
    const tail = await readTail(store, 0, options)
    return tail?.record !== undefined && remembered.wrote(tail.record.instance, tail.sequence)
  }

  /** Says that the node was stopped properly: the next one need not wait. Writes nothing after it. */
  async close(deadline: AbortSignal): Promise<void> {
    const { guard, clock, log } = this.#parts
    const wasHeld = guard.epoch !== undefined && guard.failure === undefined
    this.#leave()
    await this.#writing
    if (!wasHeld) return
    const abort = new AbortController()
    const timer = clock.setTimer(() => abort.abort(), CLOSE_MS_MAX)
    const signal = deadline.aborted ? abort.signal : AbortSignal.any([deadline, abort.signal])
    try {
      await guard.confirm({ signal })
      await this.#writeRecord(true, { signal })
    } catch (err) {
      const { leaseMs } = this.#parts
      log.warn({ err, leaseMs }, 'could not say that this node stops; another machine waits for its lease')
    } finally {
      timer.cancel()
    }
  }

  get #position() {
    const { remembered, store } = this.#parts
    return remembered.position(store.url)
  }

  /** Earlier starts of this directory whose fence of the epoch nobody has seen. It may be under way. */
  #inDoubt(epoch: number): string[] | undefined {
    const position = this.#position
    if (position?.epoch !== epoch) return undefined
    const starts = new Set([...(position.inDoubt ?? []), position.instance])
    starts.delete(this.#instance)
    return [...starts].slice(-IN_DOUBT_MAX)
  }

  /** @returns undefined if nothing is in the way */
  #judge(tail: FenceTail, hasHistory: boolean): HolderWait | undefined {
    const { store, here, clock, takesOver } = this.#parts
    if (takesOver) return undefined
    const { record } = tail
    const state = holderState(record, here, clock.now())
    if (state === 'alive') throw inUse(store.url, tail)
    if (hasHistory && !this.#wrote(tail)) throw outdated(store.url, tail)
    return state === 'unknown' ? this.#watch(tail) : undefined
  }

  /** Whether the newest record is this directory's own, or older than what the directory wrote. */
  #wrote({ epoch, sequence, record }: FenceTail): boolean {
    const position = this.#position
    if (position !== undefined && epoch < position.epoch) return true
    if (record !== undefined) return this.#parts.remembered.wrote(record.instance, sequence)
    return position?.epoch === epoch && sequence <= position.sequence
  }

  /** Clocks differ, so the age of a record says nothing. One that stays as it is for a whole lease does. */
  #watch(tail: FenceTail): HolderWait | undefined {
    const { store, clock, leaseMs: ownLeaseMs } = this.#parts
    const { epoch, sequence, record } = tail
    const name = `${epoch}-${sequence}`
    if (this.#watched !== undefined && this.#watched.name !== name) {
      this.#watched = undefined
      throw inUse(store.url, tail)
    }
    this.#watched ??= { name, since: clock.monotonic() }
    const leaseMs = Math.min(record?.lease_ms ?? ownLeaseMs, LEASE_MS_MAX)
    const leftMs = this.#watched.since + leaseMs - clock.monotonic()
    return leftMs > 0 ? { holder: describeHolder(record), leftMs } : undefined
  }

  /** @returns whether no other start can have made the same fence @throws `object_exists` if another start was faster */
  async #create(epoch: number, options: CallOptions): Promise<boolean> {
    const { store, clock, random, log, needsConditionalWrites } = this.#parts
    const body = bufferBody(this.#record(epoch, 0, false))
    const excludesOthers = (await store.createsOnlyOnce?.(options)) ?? true
    if (!excludesOthers) {
      if (needsConditionalWrites) throw remoteRefused('invalid_setting', store.url)
      log.warn(
        { url: store.url },
        'the object store does not honour conditional writes: that only one node uses it depends on its listings',
      )
      await takeTicket({ store, clock, random }, epoch, this.#instance, body, options)
    }
    // A put that its caller gives up is undone. A fence must stay: another node may have gone on from it.
    await unlessAborted(store.put(fenceKey(epoch), body), options.signal)
    return excludesOthers
  }

  #record(epoch: number, sequence: number, closed: boolean): Buffer {
    const { here, clock, leaseMs } = this.#parts
    const written_at = new Date(clock.now()).toISOString()
    return encodeRecord({
      epoch,
      sequence,
      instance: this.#instance,
      ...here,
      written_at,
      lease_ms: leaseMs,
      closed,
    })
  }

  #intervalMs(): number {
    const { leaseMs, random } = this.#parts
    return leaseMs * WRITE_AFTER * (1 + random() * JITTER)
  }

  #writeLater(delayMs: number): void {
    const { clock } = this.#parts
    if (this.#abort.signal.aborted) return
    this.#timer = clock.setTimer(() => {
      this.#writing = this.#keepAlive()
    }, delayMs)
  }

  async #keepAlive(): Promise<void> {
    const { guard, leaseMs, log } = this.#parts
    const { signal } = this.#abort
    try {
      await guard.check({ signal })
      await this.#writeRecord(false, { signal })
      this.#isLate = false
      this.#writeLater(this.#intervalMs())
    } catch (err) {
      if (signal.aborted) return
      if (!this.#isLate) log.warn({ err }, NOT_WRITTEN)
      this.#isLate = true
      this.#writeLater(leaseMs * RETRY_AFTER)
    }
  }

  /** A new object for each: nothing is ever overwritten. */
  async #writeRecord(closed: boolean, options: CallOptions): Promise<void> {
    const { store, guard, remembered } = this.#parts
    const { epoch } = guard
    if (epoch === undefined) return
    const sequence = ++this.#sequence
    const key = holderKey(epoch, sequence)
    await remembered.write(store.url, { epoch, sequence, instance: this.#instance })
    await store.put(key, bufferBody(this.#record(epoch, sequence, closed)), options)
    const obsolete = this.#obsolete
    this.#obsolete = [key]
    // What stays costs nothing but its place: only the newest record is read.
    await Promise.allSettled(obsolete.map((each) => store.delete(each, options)))
  }

  #leave(): void {
    this.#abort.abort()
    this.#timer?.cancel()
    runningInstances.delete(this.#instance)
  }
}

function inUse(url: string, { record }: FenceTail): CellError {
  return new CellError(
    'object_store_in_use',
    `${url} is in use by ${describeHolder(record)}. Two nodes must not use one prefix: stop that one first, or give this one a prefix of its own. If that node shall not go on, start with --take-over (takeOver in the library): it then stops.`,
  )
}

function outdated(url: string, { record }: FenceTail): CellError {
  return new CellError(
    'store_outdated',
    `${url} holds history that this directory did not write (${describeHolder(record)}): the directory is an older copy, or another node has taken over meanwhile. To go on from the object store, start with --adopt (adopt in the library): what the directory has is set aside. To go on from this directory, start with --take-over (takeOver): the other history stays in older versions only.`,
  )
}

/** The durability `remote`, of a store or of a cell, where nobody can rely on the fence. */
export function remoteRefused(code: 'invalid_setting' | 'invalid_request', url: string): CellError {
  return new CellError(
    code,
    `durability: remote needs an object store that honours conditional writes (If-None-Match), and ${url} does not. Without them two nodes may both take themselves for the one that writes. Use full.`,
    { field: 'durability' },
  )
}
