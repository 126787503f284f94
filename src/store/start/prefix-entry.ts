import os from 'node:os'
import { localFailure } from '../../backup/archive/backup-errors.ts'
import { EpochGuard, takenOver } from '../../backup/fence/epoch-guard.ts'
import { EpochHolder, type HolderWait } from '../../backup/fence/epoch-holder.ts'
import type { Standing } from '../../backup/fence/fence-tail.ts'
import { FencedObjectStore } from '../../backup/fence/fenced-object-store.ts'
import { placeHere } from '../../backup/fence/holder-record.ts'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import type { CallOptions, ObjectStore } from '../../backup/object-store/object-store.ts'
import { checkOwner, claimPrefix, readIdentity } from '../../backup/versions/identity/store-identity.ts'
import { isError } from '../../base/any-realm.ts'
import { backOffMs } from '../../base/async/back-off.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { type Clock, delay, type Timer } from '../../base/clock.ts'
import type { DirectoryLock } from '../../catalog/directory-lock.ts'
import type { RememberedObjectStore } from '../../catalog/remembered-object-store.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreSettings } from '../settings/settings.ts'

/** While it waits for a lease, how often a start looks for a sign of the node that may hold it. */
const LOOK_EVERY_MS = 5_000
/** A store with its catalog can serve without the object store. Its start tries for this long only. */
const ENTRY_MS_MAX = 5_000
const BACK_OFF = { minMs: 1_000, maxMs: 30_000 }
const NO_ANSWER = 'the object store does not answer; serving from local data, backups wait'
const NOT_ENTERED = 'this node cannot use its object store with these settings; nothing is backed up'
const SET_BACK =
  'the object store lacks what this directory has stored there: it was emptied, or set back to an older copy; everything is stored again'
const NOT_RECORDED =
  'could not record in the directory that this node uses the object store; serving from local data, backups wait'

/**
 * The entry of a node into its prefix: only the node of the newest epoch writes there (docs/decisions/0019-fencing.md).
 * A store that has a catalog serves without its object store, and enters once that answers.
 */
export class PrefixEntry {
  readonly guard: EpochGuard
  /** The object store for all that the node writes. */
  readonly store: ObjectStore
  /**
   * Called before this node writes to the prefix: others have written there, or what this directory had stored is gone. What
   * it does is on disk when it returns, as in the next one.
   */
  goesOnAfterOthers: () => void = () => {}
  /** Called before this node writes to the prefix: the directory may be a copy so young that the prefix does not show it. */
  goesOnInDoubt: () => void = () => {}
  /** As this node sees it, without the guard. */
  readonly #raw: ObjectStore
  readonly #whole: ObjectStore
  #storeId: string | undefined
  readonly #holder: EpochHolder
  readonly #settings: StoreSettings
  readonly #clock: Clock
  readonly #abort = new AbortController()
  #entering: Promise<void> | undefined
  #timer: Timer | undefined
  #retries = 0

  /** @param prefix of this node's own objects; empty without a cluster */
  constructor(
    whole: ObjectStore,
    remembered: RememberedObjectStore,
    lock: DirectoryLock,
    settings: StoreSettings,
    prefix: string,
  ) {
    const { clock, random, log, leaseMs, takeOver } = settings
    this.#whole = whole
    const objectStore = this.storeOf(prefix)
    this.#raw = objectStore
    this.#settings = settings
    this.#clock = clock
    this.guard = new EpochGuard(objectStore, clock)
    this.store = new FencedObjectStore(objectStore, this.guard, clock)
    this.#holder = new EpochHolder({
      store: objectStore,
      guard: this.guard,
      remembered,
      here: placeHere(os.hostname(), lock.identity),
      leaseMs,
      takesOver: takeOver,
      needsConditionalWrites: settings.durability === 'remote',
      clock,
      random,
      log,
    })
    this.#holder.setBack = () => this.#goOn('set back')
  }

  /** The object store as the node of a prefix sees it. */
  storeOf(prefix: string): ObjectStore {
    return scopedTo(this.#whole, prefix, () => this.#storeId)
  }

  /** Now it is known whose catalog this is. */
  setStore(storeId: string): void {
    this.#storeId = storeId
  }

  /**
   * Takes the next epoch; waits while it is not sure whether another node uses the prefix.
   *
   * @param willTake called before it is taken
   * @throws as `EpochHolder.tryTake`
   */
  async take(hasHistory: boolean, willTake?: () => void): Promise<void> {
    for (let looks = 0; ; looks++) {
      const wait = await this.#holder.tryTake(hasHistory, {}, willTake)
      if (wait === undefined) return
      if (looks === 0) this.#sayWait(wait)
      await delay(this.#clock, Math.min(wait.leftMs, LOOK_EVERY_MS))
    }
  }

  /** Whether the directory has used the prefix before, under whichever URL. False if the object store does not answer. */
  async isKnown(): Promise<boolean> {
    return await this.#withinEntryTime((signal) => this.#holder.isKnown({ signal })).catch(() => false)
  }

  /** Whether the prefix has history that the directory did not write. */
  isOutdated(): Promise<boolean> {
    return this.#holder.isOutdated()
  }

  /**
   * Enters the prefix with a store that has its catalog. If the object store does not answer, the store serves from its
   * local data and enters later.
   *
   * @throws `object_store_mismatch`, `object_store_in_use`, `store_outdated`
   */
  async enter(storeId: string): Promise<void> {
    const { log, takeOver } = this.#settings
    for (let looks = 0; ; looks++) {
      let wait: HolderWait | undefined
      try {
        wait = await this.#withinEntryTime((signal) => this.#tryEnter(storeId, { signal }))
      } catch (err) {
        if (isRefusal(err) || isCellError(err, 'object_store_mismatch') || isWrong(err)) throw err
        if (takeOver) throw isOfDisk(err) ? err : notTakenOver(this.#raw.url, err)
        log.warn({ err }, isOfDisk(err) ? NOT_RECORDED : NO_ANSWER)
        // Not before: a start that is refused stores nothing more as it closes, which would take the epoch after all.
        this.guard.acquire = (options) => unlessAborted(this.#enterLater(storeId), options.signal)
        this.#retryLater(storeId)
        return
      }
      if (wait === undefined) return
      if (looks === 0) this.#sayWait(wait)
      await delay(this.#clock, Math.min(wait.leftMs, LOOK_EVERY_MS))
    }
  }

  /** Says in the prefix that this node has stopped. */
  async close(deadline: AbortSignal): Promise<void> {
    this.#abort.abort()
    this.#timer?.cancel()
    await this.#entering?.catch(() => {})
    await this.#holder.close(deadline)
  }

  async #tryEnter(storeId: string, options: CallOptions): Promise<HolderWait | undefined> {
    const identity = await readIdentity(this.#raw, options)
    // Before the epoch: it is not this store's to take.
    if (identity !== undefined) checkOwner(this.#raw, identity, storeId)
    const goOn = (standing: Standing) => this.#goOn(standing)
    const wait = await this.#holder.tryTake(identity !== undefined, options, goOn)
    if (wait === undefined && identity === undefined)
      await claimPrefix(this.store, storeId, this.#clock.now(), options)
    return wait
  }

  #goOn(standing: Standing): void {
    if (standing === 'set back') this.#settings.log.error({ url: this.#raw.url }, SET_BACK)
    if (standing === 'in doubt') this.goesOnInDoubt()
    else if (standing !== 'newest') this.goesOnAfterOthers()
  }

  /** One try for all that wait for it. */
  #enterLater(storeId: string): Promise<void> {
    this.#entering ??= this.#enterOnce(storeId).finally(() => {
      this.#entering = undefined
    })
    return this.#entering
  }

  async #enterOnce(storeId: string): Promise<void> {
    const { guard } = this
    try {
      const wait = await this.#tryEnter(storeId, { signal: this.#abort.signal })
      if (wait !== undefined) throw notYet(wait)
    } catch (error) {
      if (!isRefusal(error)) throw error
      guard.lose(
        takenOver(`This node started while the object store did not answer. ${error.message}`, error),
      )
    }
    guard.assertNotLost()
  }

  #retryLater(storeId: string): void {
    if (this.#abort.signal.aborted) return
    this.#timer = this.#clock.setTimer(() => void this.#retry(storeId), backOffMs(this.#retries++, BACK_OFF))
  }

  async #retry(storeId: string): Promise<void> {
    const { guard } = this
    if (guard.epoch !== undefined) return
    try {
      await this.#enterLater(storeId)
    } catch (err) {
      if (isWrong(err)) this.#settings.log.error({ err }, NOT_ENTERED)
      else if (guard.failure === undefined) this.#retryLater(storeId)
    }
  }

  #sayWait({ holder, leftMs }: HolderWait): void {
    this.#settings.log.warn(
      { holder, waitMs: leftMs },
      `the object store ${this.#raw.url} may still be in use by ${holder}; waiting up to ${Math.ceil(leftMs / 1_000)} s for a sign of it (--take-over does not wait)`,
    )
  }

  async #withinEntryTime<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const timer = this.#clock.setTimer(() => abort.abort(), ENTRY_MS_MAX)
    try {
      return await run(abort.signal)
    } finally {
      timer.cancel()
    }
  }
}

/** The store's settings do not fit the object store. */
function isWrong(error: unknown): boolean {
  return isCellError(error, 'invalid_setting')
}

/** Of the directory's disk. */
function isOfDisk(error: unknown): boolean {
  return localFailure(error) !== undefined || isCellError(error, 'disk_full')
}

function isRefusal(error: unknown): error is CellError {
  return isCellError(error, 'object_store_in_use') || isCellError(error, 'store_outdated')
}

/** A start with a flag that a person has given does not do later what was asked for now: by then, another node may be the right one. */
function notTakenOver(url: string, cause: unknown): CellError {
  const code = isCellError(cause) ? cause.code : 'object_store_unavailable'
  const why = isError(cause) ? cause.message : String(cause)
  return new CellError(
    code,
    `${url} could not be taken over, and nothing was started. Try again with --take-over (takeOver in the library) once it answers. ${why}`,
    { cause },
  )
}

function notYet({ holder, leftMs }: HolderWait): CellError {
  return new CellError(
    'object_store_unavailable',
    `The object store may be in use by another node (${holder}). Backups wait until that is known.`,
    { retryAfterMs: Math.ceil(leftMs) },
  )
}
