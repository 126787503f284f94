import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import type { Clock } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import type { CallOptions, ObjectStore } from '../../object-store/object-store.ts'
import { LOG_PREFIX, type LogNumber, logKey, parseLogKey } from '../../versions/object-keys.ts'
import { atMostAhead } from '../../versions/retention/retention-verdicts.ts'
import type { CellPieces, LogManifest } from '../log/log-manifest.ts'
import type { StoredLog } from './stored-log.ts'
import type { VersionCover } from './version-cover.ts'
import { VoidLogs } from './void-logs.ts'

const ROUND_MS = 6 * 3_600_000

export interface LogRetentionParts {
  objectStore: ObjectStore
  /** Epoch milliseconds: later moments stay restorable. Undefined: nothing may go yet. */
  horizon(): number | undefined
  readManifest(stored: StoredLog): Promise<LogManifest>
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

  /** @returns the keys that it has removed */
  async run(options: CallOptions = {}): Promise<string[]> {
    const { objectStore, newCover, log } = this.#parts
    const horizon = this.#parts.horizon()
    if (horizon === undefined) return []
    const round = { horizon, cover: newCover(horizon), voids: new VoidLogs(this.#parts, options), options }
    const removed: string[] = []
    let previous: StoredLog | undefined
    // One key behind the listing: the newest object stays, since the next one names it.
    for await (const { key, size: sizeBytes } of objectStore.list(LOG_PREFIX, options)) {
      if (parseLogKey(key) === undefined) continue
      if (previous !== undefined) {
        // What comes after one that stays, stays too: so there are no gaps.
        if (
          !(await this.#mayGo(previous, round)) ||
          (await this.#continuesUnlisted({ key, sizeBytes }, previous.key, options))
        )
          break
        await objectStore.delete(previous.key, options)
        removed.push(previous.key)
      }
      if (previous === undefined && (await this.#continuesUnlisted({ key, sizeBytes }, '', options))) break
      previous = { key, sizeBytes }
    }
    if (removed.length > 0) log.info({ removed: removed.length }, 'removed old log objects')
    return removed
  }

  /** A listing may lag. What it lacks would stay behind, below a gap. @param before the key that is listed before it */
  async #continuesUnlisted(stored: StoredLog, before: string, options: CallOptions): Promise<boolean> {
    const { epoch, number } = parseLogKey(stored.key) as LogNumber
    const previous =
      number > 1
        ? logKey({ epoch, number: number - 1 })
        : (await this.#parts.readManifest(stored)).previous?.key
    if (previous === undefined || previous <= before) return false
    return (await this.#parts.objectStore.head(previous, options)) !== undefined
  }

  async #mayGo(stored: StoredLog, round: Round): Promise<boolean> {
    const { horizon, voids } = round
    const { to, created_at, cells } = await this.#parts.readManifest(stored)
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
