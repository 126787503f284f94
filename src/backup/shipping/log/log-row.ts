import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey } from '../../versions/object-keys.ts'
import { newestUnlisted } from '../stored/last-log.ts'
import { type LogRef, LogRefs, type LogRun, LogSizes } from './log-refs.ts'

const BEFORE_ALL: LogNumber = { epoch: 0, number: 0 }

/**
 * The log objects of a prefix in their order. Each object names the one before it, so the row is followed from its newest object
 * back: what an epoch has beyond the object that a later epoch goes on from is not in it. A listing may lag: what it
 * lacks is looked for by its key. There can be millions of objects, so the row consists of runs of numbers.
 */
export class LogRow {
  readonly #store: ObjectStore
  readonly #previous: (ref: LogRef) => Promise<string | null | undefined>
  readonly #epochMax: () => number | undefined
  /** What a listing or a look at the key has shown. */
  #listed = new LogSizes()
  /** All objects after `#after`, in their order; the last of each gap as missing. */
  #row: LogRun[] = []
  #newest: LogNumber | undefined
  #after: string | undefined
  /** Epochs in which nobody can write any more, and which have no objects. */
  readonly #empty = new Set<number>()

  /**
   * @param previous the key that an object names as the one before it, null if it is the first of all; undefined if it cannot be read
   * @param epochMax later ones are another node's; undefined if this node has no epoch
   */
  constructor(
    store: ObjectStore,
    previous: (ref: LogRef) => Promise<string | null | undefined>,
    epochMax: () => number | undefined,
  ) {
    this.#store = store
    this.#previous = previous
    this.#epochMax = epochMax
  }

  /** What comes after a key; an empty one: everything. Not to be called again before it settles. */
  async after(after: string, options: CallOptions): Promise<LogRefs> {
    if (this.#after === undefined || after < this.#after) this.#forget(after)
    else if (await this.#hasShrunk(options)) this.#forget(this.#after)
    // What was missing may be there now.
    else if (this.#row.some(({ gap }) => gap === 'missing')) this.#row = []
    if (!(await this.#list(options))) {
      this.#forget(this.#after ?? '')
      await this.#list(options)
    }
    await this.#lookAhead(options)
    await this.#follow(options)
    const refs = new LogRefs(this.#row, this.#listed)
    return refs.slice(refs.firstAfter(after))
  }

  /** What was given out before keeps its sizes. */
  #forget(after: string): void {
    this.#listed = new LogSizes()
    this.#row = []
    this.#newest = undefined
    this.#after = after
  }

  /** The objects of the row are later ones. */
  get #floor(): LogNumber {
    return parseLogKey(this.#after ?? '') ?? BEFORE_ALL
  }

  /** What was listed may have gone since. The oldest goes first: if that is there, all are. */
  async #hasShrunk(options: CallOptions): Promise<boolean> {
    const oldest = this.#row.find(({ gap }) => gap === undefined)
    if (oldest === undefined) return false
    return (await this.#store.head(logKey(firstOf(oldest)), options)) === undefined
  }

  /**
   * Lists what is not known yet.
   *
   * @returns false if the newest one that was known has gone: its node has removed it, since it did not count
   */
  async #list(options: CallOptions): Promise<boolean> {
    const newest = this.#newest && logKey(this.#newest)
    // The object itself is listed too: if it is still there, none after it was removed for its age.
    const from = newest ?? this.#after
    const after = from && keyBefore(from)
    let isListed = newest === undefined
    for await (const { key, size } of this.#store.list(LOG_PREFIX, {
      ...options,
      after: after || undefined,
    })) {
      const place = parseLogKey(key)
      if (place !== undefined) this.#add(place, size)
      if (key === newest) isListed = true
    }
    return isListed || (await this.#store.head(newest as string, options)) !== undefined
  }

  async #lookAhead(options: CallOptions): Promise<void> {
    await newestUnlisted(this.#newest ?? this.#floor, this.#epochMax(), this.#empty, (place) =>
      this.#head(place, options),
    )
  }

  async #follow(options: CallOptions): Promise<void> {
    const added: LogRun[] = []
    let run = this.#newest && this.#runUpTo(this.#newest)
    while (run !== undefined && isAfter(lastOf(run), this.#floor)) {
      added.push(run)
      const known = this.#knownFrom(run)
      if (known >= 0) {
        // What the row has from there on is in this run, or void.
        added.push(...this.#row.slice(0, known).reverse())
        break
      }
      run = await this.#before(run, options)
    }
    this.#row = added.reverse()
  }

  /** The listed objects up to one of them, without a gap. */
  #runUpTo({ epoch, number }: LogNumber): LogRun {
    const { epoch: floorEpoch, number: floorNumber } = this.#floor
    const min = epoch === floorEpoch ? floorNumber + 1 : 1
    // All of a run is listed: what it has need not be looked at again.
    const known = this.#row.findLast((each) => isListed(each) && each.epoch === epoch && each.from <= number)
    const stop = Math.min(known?.to ?? min, number)
    const first = this.#listed.firstOfRow({ epoch, number }, stop)
    return { epoch, from: known !== undefined && first === stop ? known.from : first, to: number }
  }

  /** Which run of the row begins where this one does. What comes before it is the same. */
  #knownFrom({ epoch, from, gap }: LogRun): number {
    if (gap !== undefined) return -1
    return this.#row.findLastIndex((each) => isListed(each) && each.epoch === epoch && each.from === from)
  }

  async #before(run: LogRun, options: CallOptions): Promise<LogRun | undefined> {
    const first = firstOf(run)
    if (run.gap !== undefined) return run.gap === 'removed' ? undefined : this.#lastBefore(first)
    const key = await this.#keyBefore(first)
    if (key === undefined || (key !== null && key >= logKey(first))) return this.#lastBefore(first)
    const place = key === null || key <= (this.#after ?? '') ? undefined : parseLogKey(key)
    if (place === undefined) return undefined
    const isThere = this.#listed.get(place) !== undefined || (await this.#head(place, options))
    if (isThere) return this.#runUpTo(place)
    const gap = (await this.#isRemoved(place, options)) ? 'removed' : 'missing'
    return { epoch: place.epoch, from: place.number, to: place.number, gap }
  }

  /** Nearly always: the number before it. */
  async #keyBefore(first: LogNumber): Promise<string | null | undefined> {
    const { epoch, number } = first
    if (number > 1) return logKey({ epoch, number: number - 1 })
    const sizeBytes = this.#listed.get(first) ?? 0
    return await this.#previous({ ...first, key: logKey(first), sizeBytes, isMissing: false })
  }

  /** Whether everything before a missing object is missing, too. */
  async #isRemoved(place: LogNumber, options: CallOptions): Promise<boolean> {
    if (this.#listed.lastBefore(place) !== undefined) return false
    const floor = parseLogKey(this.#after ?? '')
    return floor === undefined || (await this.#head(floor, options)) === undefined
  }

  #lastBefore(place: LogNumber): LogRun | undefined {
    const last = this.#listed.lastBefore(place)
    return last && this.#runUpTo(last)
  }

  async #head(place: LogNumber, options: CallOptions): Promise<LogNumber | undefined> {
    const found = await this.#store.head(logKey(place), options)
    if (found === undefined) return undefined
    this.#add(place, found.size)
    return place
  }

  #add(place: LogNumber, sizeBytes: number): void {
    this.#listed.set(place, sizeBytes)
    if (this.#newest === undefined || isAfter(place, this.#newest)) this.#newest = place
  }
}

function isListed({ gap }: LogRun): boolean {
  return gap === undefined
}

function firstOf({ epoch, from }: LogRun): LogNumber {
  return { epoch, number: from }
}

function lastOf({ epoch, to }: LogRun): LogNumber {
  return { epoch, number: to }
}

function isAfter(place: LogNumber, other: LogNumber): boolean {
  return place.epoch > other.epoch || (place.epoch === other.epoch && place.number > other.number)
}

function keyBefore(key: string): string {
  const { epoch, number } = parseLogKey(key) ?? { epoch: 0, number: 1 }
  return logKey({ epoch, number: number - 1 })
}
