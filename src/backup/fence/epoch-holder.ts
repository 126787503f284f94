import { randomUUID } from 'node:crypto'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { RememberedStart } from '../../catalog/remembered-object-store.ts'
import { CellError, isCellError } from '../../errors.ts'
import {
  bufferBody,
  type CallOptions,
  type ObjectBody,
  type ObjectStore,
  objectExists,
} from '../object-store/object-store.ts'
import { fenceKey, fencesOf, fenceTicketKey } from '../versions/object-keys.ts'
import { takenOver } from './epoch-guard.ts'
import {
  type DirectoryFacts,
  type FenceTail,
  readTail,
  recordKey,
  type Standing,
  standingOf,
} from './fence-tail.ts'
import { describeHolder, holderState, runningInstances } from './holder-record.ts'
import { HolderRecords, type HolderRecordsParts } from './holder-records.ts'

export const DEFAULT_LEASE_MS = 90_000
/** Nobody waits longer, whatever a record says. */
export const LEASE_MS_MAX = 3_600_000

const ATTEMPTS_MAX = 10

interface EpochHolderParts extends HolderRecordsParts {
  /** Takes the next epoch whoever has the newest, and whatever was written there. */
  takesOver: boolean
  /** Refuses an object store on whose conditional writes nobody can rely. */
  needsConditionalWrites?: boolean | undefined
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
  readonly #records: HolderRecords
  /** Called when what this node has stored is gone. What it does is on disk when it returns. */
  setBack: () => void = () => {}
  /** It was called, and its fences are not all stored. */
  #isSetBack = false
  /** The record that this waits for to change, and since when, by the monotonic clock. */
  #watched: { name: string; since: number } | undefined

  constructor(parts: EpochHolderParts) {
    this.#parts = parts
    this.#records = new HolderRecords(parts, this.#instance, (options) => this.#goOnSetBack(options))
    parts.guard.lost.listen(() => this.#leave())
  }

  /**
   * Takes the next epoch, unless another node may hold the newest one.
   *
   * @param hasHistory the directory's state goes on with what the prefix holds
   * @param willTake called when nothing is in the way; may throw. What it does is on disk when it returns
   * @returns undefined once it is taken; how long to wait before the next try
   * @throws `object_store_in_use`; `store_outdated` if the prefix has history that the directory did not write;
   * what the object store throws
   */
  async tryTake(
    hasHistory: boolean,
    options: CallOptions = {},
    willTake: (standing: Standing) => void = () => {},
  ): Promise<HolderWait | undefined> {
    const { store, remembered, guard } = this.#parts
    for (let attempt = 1; ; attempt++) {
      const tail = await readTail(store, this.#starts, options)
      const standing = standingOf(tail, this.#facts)
      const wait = tail && this.#judge(tail, standing, hasHistory)
      if (wait !== undefined) return wait
      willTake(standing)
      const epoch = this.#nextEpoch(tail, standing)
      // On disk before it is in the object store: so the object store never has more than a directory knows of itself.
      const start = { epoch, sequence: 0, instance: this.#instance }
      await remembered.write(store.url, ...this.#seenIn(tail), start)
      // Before anybody can see the fence: in this process, it shows that the node lives.
      runningInstances.add(this.#instance)
      let excludesOthers: boolean
      try {
        excludesOthers = await this.#createUpTo(epoch, tail?.epoch, options)
      } catch (error) {
        runningInstances.delete(this.#instance)
        if (!isCellError(error, 'object_exists') || attempt === ATTEMPTS_MAX) throw error
        continue
      }
      guard.hold(epoch, excludesOthers)
      this.#records.start(tail !== undefined && tail.sequence > 0 ? [recordKey(tail)] : [])
      return undefined
    }
  }

  /** Whether the prefix has history that the directory did not write. */
  async isOutdated(options: CallOptions = {}): Promise<boolean> {
    const tail = await readTail(this.#parts.store, this.#starts, options)
    return standingOf(tail, this.#facts) === 'outdated'
  }

  /** Whether the newest record of the prefix is the directory's own, under whichever URL the prefix was known. */
  async isKnown(options: CallOptions = {}): Promise<boolean> {
    const tail = await readTail(this.#parts.store, [], options)
    return tail?.record !== undefined && standingOf(tail, { ...this.#facts, starts: [] }) !== 'outdated'
  }

  /** Says that the node was stopped properly: the next one need not wait. Writes nothing after it. */
  async close(deadline: AbortSignal): Promise<void> {
    const { guard } = this.#parts
    const wasHeld = guard.epoch !== undefined && guard.failure === undefined
    this.#leave()
    await this.#records.settled()
    if (wasHeld) await this.#records.writeLast(deadline)
  }

  get #starts(): readonly RememberedStart[] {
    const { remembered, store } = this.#parts
    return remembered.starts(store.url)
  }

  get #facts(): DirectoryFacts {
    const { remembered, here, takesOver } = this.#parts
    return { allStarts: remembered.allStarts, starts: this.#starts, here, takesOver }
  }

  /**
   * The next number, also if a fence of this directory could not be stored: writers look for the next one alone. In an object
   * store that was set back, it is the one after all that this directory has had there.
   */
  #nextEpoch(tail: FenceTail | undefined, standing: Standing): number {
    const stored = this.#starts.filter((each) => each.stored !== undefined).map(({ epoch }) => epoch)
    return Math.max(tail?.epoch ?? 0, ...(standing === 'set back' ? stored : [])) + 1
  }

  /** The directory's start whose record is the tail: that much is stored. */
  #seenIn(tail: FenceTail | undefined): RememberedStart[] {
    if (tail === undefined) return []
    const start = this.#starts.find((each) => each.instance === tail.record?.instance)
    return start?.epoch === tail.epoch
      ? [{ ...start, stored: Math.max(start.stored ?? 0, tail.sequence) }]
      : []
  }

  /** @returns undefined if nothing is in the way */
  #judge(tail: FenceTail, standing: Standing, hasHistory: boolean): HolderWait | undefined {
    const { store, here, clock, takesOver } = this.#parts
    if (takesOver) return undefined
    const { record } = tail
    const state = holderState(record, here, clock.now())
    if (state === 'alive') throw inUse(store.url, tail)
    if (hasHistory && standing === 'outdated') throw outdated(store.url, tail)
    return state === 'unknown' ? this.#watch(tail) : undefined
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

  /**
   * Makes the fence of an epoch, and those between the newest one and it, which are missing in an object store that was set
   * back, all of them in one that was emptied: the node of any of them finds the next one, and a start that has no directory
   * looks for them from the first one on.
   */
  async #createUpTo(epoch: number, newest = 0, options: CallOptions = {}): Promise<boolean> {
    for (let missing = newest + 1; missing < epoch; missing++) await this.#create(missing, options)
    return await this.#create(epoch, options)
  }

  /** @returns whether no other start can have made the same fence @throws `object_exists` if another start was faster */
  async #create(epoch: number, options: CallOptions): Promise<boolean> {
    const { store, clock, random, log, needsConditionalWrites } = this.#parts
    const body = bufferBody(this.#records.encode(epoch, 0))
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

  /**
   * What this node has stored is gone: somebody emptied the object store, or set it back to an older copy. The node goes on in
   * its epoch, with all fences up to it, unless another one has used the prefix since.
   */
  async #goOnSetBack(options: CallOptions): Promise<void> {
    const { store, guard } = this.#parts
    const tail = await readTail(store, this.#starts, options)
    if (standingOf(tail, this.#facts) === 'outdated') {
      guard.lose(
        takenOver(
          `${store.url} was set back to an older copy, and ${describeHolder(tail?.record)} has used it since. This node serves no longer, and what it has is in its directory.`,
        ),
      )
    }
    guard.assertNotLost()
    if (!this.#isSetBack) this.setBack()
    this.#isSetBack = true
    const epoch = guard.epoch as number
    if (tail?.epoch !== epoch) await this.#createUpTo(epoch, tail?.epoch, options)
    this.#isSetBack = false
  }

  #leave(): void {
    this.#records.stop()
    runningInstances.delete(this.#instance)
  }
}

function inUse(url: string, { record }: FenceTail): CellError {
  return new CellError(
    'object_store_in_use',
    `${url} is in use by ${describeHolder(record)}. Two nodes must not use one prefix: stop that one first, or give this one a prefix of its own. If that node must not go on, start this one with --take-over (takeOver in the library): the other one then stops.`,
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

/** Starts that met at one number look again at different times, up to so many milliseconds later. */
const LOOK_AGAIN_MS_MAX = 1_000
/** A ticket that stays for so many looks is of a start that was killed; one that does not come in as many never will. */
const LOOKS_MAX = 30

/**
 * Decides which of several starts may put the fence of an epoch, where the object store cannot refuse the second of two
 * puts. Each puts a ticket of its own and lists them: a start that finds its ticket alone goes on, and of several the one
 * with the first name waits until the others have withdrawn theirs. It is as good as the listing.
 *
 * @throws `object_exists` if another start has put the fence; `object_store_unavailable` if no listing shows the ticket
 */
async function takeTicket(
  { store, clock, random }: { store: ObjectStore; clock: Clock; random: () => number },
  epoch: number,
  instance: string,
  body: ObjectBody,
  options: CallOptions,
): Promise<void> {
  const mine = fenceTicketKey(epoch, instance)
  let isPut = false
  let unlisted = 0
  for (let looks = 1; ; looks++) {
    const tickets = await ticketsOf(store, epoch, options)
    const others = tickets.filter((key) => key !== mine)
    if (isPut && others.length === 0 && tickets.length === 1) return
    const isTaken = others.includes(fenceKey(epoch))
    const isFirst = others.every((key) => mine < key)
    // An earlier try may have left it there: its put was stored and not confirmed, or what came after it failed.
    if ((isPut || tickets.includes(mine)) && (isTaken || !isFirst)) {
      await store.delete(mine, options)
      isPut = false
    }
    if (isTaken) throw objectExists()
    if (isPut && !tickets.includes(mine) && ++unlisted > LOOKS_MAX) {
      await store.delete(mine, options)
      throw notListed(store.url, mine)
    }
    if (looks > LOOKS_MAX) for (const key of others) await store.delete(key, options)
    if (!isPut && isFirst) {
      await putOnce(store, mine, body, options)
      isPut = true
    } else await delay(clock, random() * LOOK_AGAIN_MS_MAX)
  }
}

/** Nobody else puts this instance's ticket: if it is there, an earlier try put it. */
async function putOnce(
  store: ObjectStore,
  ticket: string,
  body: ObjectBody,
  options: CallOptions,
): Promise<void> {
  try {
    await store.put(ticket, body, options)
  } catch (error) {
    if (!isCellError(error, 'object_exists')) throw error
  }
}

function notListed(url: string, key: string): CellError {
  return new CellError(
    'object_store_unavailable',
    `${url} does not list what was just stored there (${key}), and without conditional writes its listing has to tell whether another node starts.`,
  )
}

async function ticketsOf(store: ObjectStore, epoch: number, options: CallOptions): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of store.list(fencesOf(epoch), options)) keys.push(key)
  return keys
}
