import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import type { Clock } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey, parseVersion } from '../../versions/object-keys.ts'
import { atMostAhead, isFromBefore } from '../../versions/retention/retention-verdicts.ts'
import { listingOf, type VersionIndex } from '../../versions/version-index.ts'
import type { CellPieces, LogManifest } from '../log/log-manifest.ts'
import { firstLogFrom } from './last-log.ts'
import type { StoredLog } from './stored-log.ts'

const ROUND_MS = 6 * 3_600_000

/** A log as it is stored. */
export interface StoredLogs {
  objectStore: ObjectStore
  readManifest(stored: StoredLog): Promise<LogManifest>
}

interface LogRetentionParts extends StoredLogs {
  /** Of nodes that are gone. Their newest objects stay, as their fences do: nobody takes such a prefix for a new one. */
  left?(): Promise<readonly StoredLogs[]>
  /** Epoch milliseconds: later moments stay restorable. Undefined: nothing may go yet. */
  horizon(): number | undefined
  /** Looks at versions from now on. @param horizon epoch milliseconds: later moments stay restorable */
  newCover(horizon: number): Pick<VersionCover, 'of' | 'forget'>
  /** As in `CellPort`. */
  isDeleted(cellId: string, committedAt: number): Promise<boolean>
  /** As in `CellPort`. */
  needsBase(cellId: string): Promise<void>
  clock: Clock
  log: Log
}

interface Round {
  log: StoredLogs
  horizon: number
  cover: Pick<VersionCover, 'of' | 'forget'>
  voids: VoidLogs
  options: CallOptions
}

/**
 * Removes log objects that are too old, from the oldest on, once versions hold everything that is in them. All moments that are
 * not too old can still be restored: the newest version from before them holds what is removed.
 */
export class LogRetention {
  readonly #parts: LogRetentionParts
  readonly #abort = new AbortController()
  /** By the monotonic clock. */
  #notBefore = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined

  constructor(parts: LogRetentionParts) {
    this.#parts = parts
  }

  /** Call when an object is stored: an idle node asks for nothing. */
  runIfDue(): void {
    const { clock, log } = this.#parts
    const now = clock.monotonic()
    if (now < this.#notBefore || this.#running !== undefined || this.#abort.signal.aborted) return
    this.#notBefore = now + ROUND_MS
    const { signal } = this.#abort
    this.#running = this.run({ signal })
      .then(() => {})
      .catch((err) => {
        if (!signal.aborted) log.warn({ err }, 'could not remove old log objects; trying again in six hours')
      })
      .finally(() => {
        this.#running = undefined
      })
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#running
  }

  /** @returns the keys that it has removed; those of nodes that are gone as that node named them */
  async run(options: CallOptions = {}): Promise<string[]> {
    const { newCover, left, log } = this.#parts
    const horizon = this.#parts.horizon()
    if (horizon === undefined) return []
    const cover = newCover(horizon)
    const removed: string[] = []
    for (const each of [this.#parts, ...((await left?.()) ?? [])]) {
      const round = { log: each, horizon, cover, voids: new VoidLogs(each, options), options }
      removed.push(...(await this.#prune(round)))
    }
    if (removed.length > 0) log.info({ removed: removed.length }, 'removed old log objects')
    return removed
  }

  async #prune(round: Round): Promise<string[]> {
    const { log, options } = round
    const { objectStore } = log
    const removed: string[] = []
    let previous: StoredLog | undefined
    // One key behind the listing: the newest object stays, since the next one names it.
    for await (const { key, size: sizeBytes } of objectStore.list(LOG_PREFIX, options)) {
      if (parseLogKey(key) === undefined) continue
      if (previous !== undefined) {
        // What comes after one that stays, stays too: so there are no gaps.
        if (
          !(await this.#mayGo(previous, round)) ||
          (await this.#continuesUnlisted({ key, sizeBytes }, previous.key, round))
        )
          break
        await objectStore.delete(previous.key, options)
        removed.push(previous.key)
      }
      if (previous === undefined && (await this.#continuesUnlisted({ key, sizeBytes }, '', round))) break
      previous = { key, sizeBytes }
    }
    return removed
  }

  /** A listing may lag. What it lacks would stay behind, below a gap. @param before the key that is listed before it */
  async #continuesUnlisted(stored: StoredLog, before: string, { log, options }: Round): Promise<boolean> {
    const { epoch, number } = parseLogKey(stored.key) as LogNumber
    const previous =
      number > 1 ? logKey({ epoch, number: number - 1 }) : (await log.readManifest(stored)).previous?.key
    if (previous === undefined || previous <= before) return false
    return (await log.objectStore.head(previous, options)) !== undefined
  }

  async #mayGo(stored: StoredLog, round: Round): Promise<boolean> {
    const { log, horizon, voids } = round
    const { to, created_at, cells } = await log.readManifest(stored)
    const at = atMostAhead(to, Date.parse(created_at))
    if (at >= horizon) return false
    // What nobody reads need not be in a version.
    return (await this.#isHeld(cells, at, round)) || (await voids.has(stored.key))
  }

  /** @param at when the newest of it was committed */
  async #isHeld(cells: readonly CellPieces[], at: number, { cover, options }: Round): Promise<boolean> {
    for (const cell of cells) {
      let state = await cover.of(cell, options)
      // What a deleted cell committed after its last version goes with its age.
      if (state === 'unheld' && (await this.#parts.isDeleted(cell.cell_id, at))) continue
      if (state === 'unheld' && (await this.#gotBase(cell.cell_id, options))) {
        cover.forget(cell.cell_id)
        state = await cover.of(cell, options)
      }
      if (state !== 'held') return false
    }
    return true
  }

  /** A cell without a version that can be restored would hold up all others for ever. */
  async #gotBase(cellId: string, { signal }: CallOptions): Promise<boolean> {
    const { needsBase, log } = this.#parts
    try {
      await unlessAborted(needsBase(cellId), signal)
      return true
    } catch (err) {
      if (signal?.aborted) throw err
      log.warn(
        { cellId, err },
        'old log objects stay: no version of this cell holds what is in them, and none could be stored',
      )
      return false
    }
  }
}

/**
 * Tells which log objects nobody reads: what an epoch has beyond the object that a later one goes on from (see `LogRow`). It asks
 * once per epoch, so it is for one look at the prefix.
 */
class VoidLogs {
  readonly #parts: StoredLogs
  readonly #options: CallOptions
  /** By epoch. */
  readonly #joints = new Map<number, Promise<string | undefined>>()

  constructor(parts: StoredLogs, options: CallOptions) {
    this.#parts = parts
    this.#options = options
  }

  async has(key: string): Promise<boolean> {
    const joint = await this.#jointAfter((parseLogKey(key) as LogNumber).epoch)
    return joint !== undefined && joint < key
  }

  /** What the next epoch goes on from that is not void itself; empty: from nothing. @returns undefined if no epoch is known to */
  #jointAfter(epoch: number): Promise<string | undefined> {
    let joint = this.#joints.get(epoch)
    if (joint === undefined) {
      joint = this.#find(epoch)
      this.#joints.set(epoch, joint)
    }
    return joint
  }

  async #find(epoch: number): Promise<string | undefined> {
    const { objectStore, readManifest } = this.#parts
    const next = await firstLogFrom(objectStore, { epoch: epoch + 1, number: 1 }, this.#options)
    if (next === undefined || next.number > 1) return undefined
    // If it is void, what goes on after it goes on after this epoch, too.
    if (await this.has(next.key)) return await this.#jointAfter(next.epoch)
    return (await readManifest(next)).previous?.key ?? ''
  }
}

/**
 * `held`: no moment after the horizon needs the pieces; `needed`: some do, but the newest version holds them, so they will be
 * held; `unheld`: no version holds them.
 */
type Cover = 'held' | 'needed' | 'unheld'

/** Versions that can be restored. */
interface CoveringVersions {
  newest: ManifestHead
  /** The newest one from before the horizon, or the oldest of all: no moment after the horizon needs an older one. */
  first: ManifestHead
}

/** Tells whether versions hold what is in log objects. Looks at each cell once. */
export class VersionCover {
  readonly #index: VersionIndex
  readonly #horizon: number
  readonly #versions = new Map<string, CoveringVersions | undefined>()

  /** @param horizon epoch milliseconds: later moments stay restorable */
  constructor(index: VersionIndex, horizon: number) {
    this.#index = index
    this.#horizon = horizon
  }

  async of({ cell_id, history, pieces }: CellPieces, options: CallOptions): Promise<Cover> {
    if (!this.#versions.has(cell_id)) this.#versions.set(cell_id, await this.#find(cell_id, options))
    const versions = this.#versions.get(cell_id)
    const last = pieces.at(-1)?.sequence ?? 0
    const to = pieces.at(-1)?.commits.at(-1)?.[1] ?? 0
    if (versions === undefined || !holds(versions.newest, history, last, to)) return 'unheld'
    return holds(versions.first, history, last, to) ? 'held' : 'needed'
  }

  /** The cell has a new version. */
  forget(cellId: string): void {
    this.#versions.delete(cellId)
  }

  async #find(cellId: string, options: CallOptions): Promise<CoveringVersions | undefined> {
    const versions = await this.#index.versions(cellId, options)
    const listing = listingOf(versions)
    const firstOf = async (some: readonly { version: string }[], horizon = Number.POSITIVE_INFINITY) => {
      for (const { version } of some) {
        // Most need no look at their manifests.
        if ((parseVersion(version)?.time ?? 0) > horizon) continue
        const head = await this.#index.restorable(version, cellId, listing, options)
        const createdAt = Date.parse(head?.created_at ?? '')
        if (head !== undefined && isFromBefore({ createdAt, at: timeOf(head) }, horizon)) return head
      }
      return undefined
    }
    const newest = await firstOf(versions)
    if (newest === undefined) return undefined
    const old = await firstOf(versions, this.#horizon)
    return { newest, first: old ?? (await firstOf(versions.toReversed())) ?? newest }
  }
}

/** A version of another history counts by its time: a history ends before the version that begins the next one. */
function holds(head: ManifestHead, history: string, sequence: number, to: number): boolean {
  return head.log?.history === history ? head.log.sequence >= sequence : timeOf(head) > to
}

/** On the cell's line of time. */
function timeOf({ log, created_at }: ManifestHead): number {
  return log?.at ?? Date.parse(created_at)
}
