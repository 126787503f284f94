import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey } from '../versions/object-keys.ts'
import type { StoredLog } from './stored-log.ts'
import { newestUnlisted } from './unlisted-logs.ts'

/** A log object in the order of its kind. */
export interface LogRef extends StoredLog, LogNumber {
  /** Neither a listing nor a look at the key shows it, although later objects are there. */
  isMissing: boolean
  /** Missing, and with it all before it: retention removes the oldest objects, once later versions hold what is in them. */
  isRemoved?: true
}

/**
 * The log objects of a prefix in their order. Each object names the one before it, so the row is followed from its newest object
 * back: what an epoch has beyond the object that a later epoch goes on from is not in it. A listing may lag: what it
 * lacks is looked for by its key.
 */
export class LogRow {
  readonly #store: ObjectStore
  readonly #previous: (ref: LogRef) => Promise<string | null | undefined>
  readonly #epochMax: () => number | undefined
  /** By their keys: what a listing or a look at the key has shown. */
  #listed = new Map<string, LogRef>()
  /** All objects after `#after`, in their order; the last of each gap as missing. */
  #row: LogRef[] = []
  #newest: LogRef | undefined
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
  async after(after: string, options: CallOptions): Promise<LogRef[]> {
    if (this.#after === undefined || after < this.#after) this.#forget(after)
    else if (await this.#hasShrunk(options)) this.#forget(this.#after)
    // What was missing may be there now.
    else if (this.#row.some(({ isMissing, isRemoved }) => isMissing && !isRemoved)) this.#row = []
    if (!(await this.#list(options))) {
      this.#forget(this.#after ?? '')
      await this.#list(options)
    }
    await this.#lookAhead(options)
    await this.#follow(options)
    return this.#row.filter(({ key }) => key > after)
  }

  #forget(after: string): void {
    this.#listed.clear()
    this.#row = []
    this.#newest = undefined
    this.#after = after
  }

  /** What was listed may have gone since. The oldest goes first: if that is there, all are. */
  async #hasShrunk(options: CallOptions): Promise<boolean> {
    const oldest = this.#row.find(({ isMissing }) => !isMissing)
    return oldest !== undefined && (await this.#store.head(oldest.key, options)) === undefined
  }

  /**
   * Lists what is not known yet.
   *
   * @returns false if the newest one that was known has gone: its node has removed it, since it did not count
   */
  async #list(options: CallOptions): Promise<boolean> {
    const newest = this.#newest?.key
    // The object itself is listed too: if it is still there, none after it was removed for its age.
    const from = newest ?? this.#after
    const after = from && keyBefore(from)
    let isListed = newest === undefined
    for await (const { key, size } of this.#store.list(LOG_PREFIX, {
      ...options,
      after: after || undefined,
    })) {
      const number = parseLogKey(key)
      if (number !== undefined) this.#add(number, size)
      if (key === newest) isListed = true
    }
    return isListed || (await this.#store.head(newest as string, options)) !== undefined
  }

  async #lookAhead(options: CallOptions): Promise<void> {
    const known = this.#newest ?? parseLogKey(this.#after ?? '') ?? { epoch: 0, number: 0 }
    await newestUnlisted(known, this.#epochMax(), this.#empty, (place) => this.#head(place, options))
  }

  async #follow(options: CallOptions): Promise<void> {
    const added: LogRef[] = []
    let ref = this.#newest
    while (ref !== undefined && ref.key > (this.#after ?? '')) {
      // What lies between two objects of the row is void.
      while ((this.#row.at(-1)?.key ?? '') > ref.key) this.#row.pop()
      if (this.#row.at(-1)?.key === ref.key) break
      added.push(ref)
      ref = this.#listedBefore(ref) ?? (await this.#before(ref, options))
    }
    const isJoined = ref !== undefined && this.#row.at(-1)?.key === ref.key
    this.#row = [...(isJoined ? this.#row : []), ...added.reverse()]
  }

  /** Nearly always: the number before it. */
  #listedBefore({ epoch, number, isMissing }: LogRef): LogRef | undefined {
    if (number === 1 || isMissing) return undefined
    return this.#listed.get(logKey({ epoch, number: number - 1 }))
  }

  async #before(ref: LogRef, options: CallOptions): Promise<LogRef | undefined> {
    if (ref.isMissing) return ref.isRemoved ? undefined : this.#lastBefore(ref.key)
    const { epoch, number } = ref
    const key = number > 1 ? logKey({ epoch, number: number - 1 }) : await this.#previous(ref)
    if (key === undefined || (key !== null && key >= ref.key)) return this.#lastBefore(ref.key)
    const place = key === null || key <= (this.#after ?? '') ? undefined : parseLogKey(key)
    if (key === null || place === undefined) return undefined
    const found = this.#listed.get(key) ?? (await this.#head(place, options))
    if (found !== undefined) return found
    const missing = { ...place, key, sizeBytes: 0, isMissing: true }
    return (await this.#isRemoved(key, options)) ? { ...missing, isRemoved: true } : missing
  }

  /** Whether everything before a missing object is missing, too. */
  async #isRemoved(key: string, options: CallOptions): Promise<boolean> {
    if (this.#lastBefore(key) !== undefined) return false
    const { epoch, number } = parseLogKey(this.#after ?? '') ?? {}
    if (epoch === undefined || number === undefined) return true
    return (await this.#head({ epoch, number }, options)) === undefined
  }

  #lastBefore(key: string): LogRef | undefined {
    let last: LogRef | undefined
    for (const ref of this.#listed.values()) if (ref.key < key && ref.key > (last?.key ?? '')) last = ref
    return last
  }

  async #head(place: LogNumber, options: CallOptions): Promise<LogRef | undefined> {
    const found = await this.#store.head(logKey(place), options)
    return found && this.#add(place, found.size)
  }

  #add({ epoch, number }: LogNumber, sizeBytes: number): LogRef {
    const ref = { key: logKey({ epoch, number }), sizeBytes, epoch, number, isMissing: false }
    this.#listed.set(ref.key, ref)
    if (ref.key > (this.#newest?.key ?? '')) this.#newest = ref
    return ref
  }
}

function keyBefore(key: string): string {
  const { epoch, number } = parseLogKey(key) ?? { epoch: 0, number: 1 }
  return logKey({ epoch, number: number - 1 })
}
