import { randomBytes } from 'node:crypto'
import { Emitter } from '../../base/async/emitter.ts'
import { type Clock, setImmediate, type Timer } from '../../base/clock.ts'
import type { Limits } from '../../base/options/limits.ts'
import { COUNT, type Shape } from '../../base/options/option-shapes.ts'
import { FairShares } from '../../engine/commits/fair-shares.ts'
import type { CommitChanges } from '../../engine/watch/commit-recorder.ts'
import { CellError } from '../../errors.ts'
import { checkWatchOptions, filterOf, type ResetReason, type WatchOptions } from './cell-change.ts'
import { ChangeStream, type OpenWindow } from './change-stream.ts'
import { ChangeWindow } from './change-window.ts'

interface ChangeHubParts {
  settings: WatchSettings
  limits: Limits
  clock: Clock
  /** @throws `cell_not_found` */
  record(cellId: string): { accountId: string | null }
}

/** What a watched cell takes without a commit. */
const WINDOW_BYTES = 1_024
const EPOCH_BYTES = 8

/**
 * Tells those who watch a cell of its commits. It knows nothing of files or processes: who has the cell open tells it of
 * commits, and who deletes, restores or loses a cell tells it that.
 */
export class ChangeHub {
  /** A cell's commits are wanted from now on, or no longer. */
  readonly watched = new Emitter<[cellId: string, isWatched: boolean]>()
  readonly #parts: ChangeHubParts
  readonly #windows = new Map<string, ChangeWindow>()
  /** Of windows that nobody reads. */
  readonly #timers = new Map<string, Timer>()
  readonly #shares: FairShares
  readonly #wakeups: Wakeups
  #closed: CellError | undefined

  constructor(parts: ChangeHubParts) {
    this.#parts = parts
    this.#shares = new FairShares(parts.settings.totalBytesMax)
    this.#wakeups = new Wakeups()
  }

  /** @throws `invalid_request`, `invalid_key` for bad options */
  watch(cellId: string, options: WatchOptions = {}): ChangeStream {
    checkWatchOptions(options, this.#parts.limits)
    return new ChangeStream(() => this.#open(cellId), filterOf(options), options)
  }

  isWatched(cellId: string): boolean {
    return this.#windows.has(cellId)
  }

  /** A commit of a cell is on disk. Commits of cells that nobody watches are of no use. */
  committed(cellId: string, changes: CommitChanges): void {
    const window = this.#windows.get(cellId)
    if (window === undefined) return
    window.add(changes)
    while (window.bytes > this.#parts.settings.cellBytesMax) this.#dropOldest(window)
    this.#account(window)
    while (this.#shares.isExceeded && this.#makeRoom());
    this.#wakeups.wake(window.waiting)
  }

  /** Commits of the cell may have been missed. */
  interrupted(cellId: string): void {
    this.reset(cellId, 'interrupted')
  }

  /** What is known of the cell is not enough any more: readers have to read it again. */
  reset(cellId: string, reason: ResetReason): void {
    const window = this.#windows.get(cellId)
    if (window === undefined) return
    window.reset(newEpoch(), reason)
    this.#account(window)
    this.#wakeups.wake(window.waiting)
  }

  /** There will be no further commit: readers are told `error`. */
  end(cellId: string, error: CellError): void {
    const window = this.#windows.get(cellId)
    if (window === undefined) return
    window.ended = error
    this.#forget(window)
    this.#wakeups.wake(window.waiting)
  }

  /** {@link end} of the cells for which this is so. */
  endWhere(isOver: (cellId: string) => boolean, error: CellError): void {
    for (const cellId of [...this.#windows.keys()]) if (isOver(cellId)) this.end(cellId, error)
  }

  /** Ends every watch, and those that begin later. @param reason what readers are told; that of the first call counts */
  close(reason = new CellError('store_closed', 'The store was closed.')): void {
    this.#closed ??= reason
    for (const cellId of [...this.#windows.keys()]) this.end(cellId, this.#closed)
  }

  #open(cellId: string): OpenWindow {
    if (this.#closed !== undefined) throw this.#closed
    const { accountId } = this.#parts.record(cellId)
    const window = this.#windows.get(cellId) ?? this.#newWindow(cellId, accountId ?? '')
    window.readers++
    this.#timers.get(cellId)?.cancel()
    this.#timers.delete(cellId)
    return { window, release: () => this.#release(window) }
  }

  #newWindow(cellId: string, owner: string): ChangeWindow {
    const window = new ChangeWindow(cellId, owner, newEpoch())
    this.#windows.set(cellId, window)
    this.#account(window)
    this.watched.emit(cellId, true)
    return window
  }

  #release(window: ChangeWindow): void {
    window.readers--
    const { cellId } = window
    if (window.readers > 0 || this.#windows.get(cellId) !== window) return
    const { clock, settings } = this.#parts
    this.#timers.set(
      cellId,
      clock.setTimer(() => this.#forget(window), settings.keepMs),
    )
  }

  #forget(window: ChangeWindow): void {
    const { cellId } = window
    this.#timers.get(cellId)?.cancel()
    this.#timers.delete(cellId)
    this.#windows.delete(cellId)
    this.#shares.delete(cellId)
    this.watched.emit(cellId, false)
  }

  #account({ cellId, owner, bytes }: ChangeWindow): void {
    this.#shares.set(cellId, owner, WINDOW_BYTES + bytes)
  }

  /** @returns false if nothing is left to drop */
  #makeRoom(): boolean {
    for (const [cellId, window] of this.#windows) {
      if (!this.#shares.mayMakeRoom(cellId)) continue
      if (window.readers === 0) this.#forget(window)
      else if (window.isEmpty) continue
      else {
        // Half of it: dropping one at a time would come here again with the next commit.
        const target = window.bytes / 2
        while (window.bytes > target) this.#dropOldest(window)
        this.#account(window)
      }
      return true
    }
    return false
  }

  #dropOldest(window: ChangeWindow): void {
    window.dropOldest()
    for (const note of window.dropped) note()
  }
}

/** Long enough that no other process, start or restore has the same. */
function newEpoch(): string {
  return randomBytes(EPOCH_BYTES).toString('hex')
}

/** What a reader does with a change comes after the turn in which it is woken, so that its time can't be measured here. */
const READERS_A_TURN = 16

/** Wakes those who wait, a few in each turn of the event loop: a cell may have hundreds of readers. */
class Wakeups {
  readonly #due = new Set<() => void>()
  #scheduled = false

  wake(waiting: ReadonlySet<() => void>): void {
    for (const each of waiting) this.#due.add(each)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled || this.#due.size === 0) return
    this.#scheduled = true
    setImmediate(() => this.#run())
  }

  #run(): void {
    this.#scheduled = false
    for (const each of [...this.#due].slice(0, READERS_A_TURN)) {
      this.#due.delete(each)
      each()
    }
    this.#schedule()
  }
}

/** How much of the past is kept, for those who come back. */
export interface WatchSettings {
  /** Bytes of the newest commits of a watched cell; 1 MiB by default. */
  cellBytesMax: number
  /** Bytes of the commits of all watched cells; 64 MiB by default. Accounts have equal parts. */
  totalBytesMax: number
  /** Milliseconds after the last watch of a cell until its commits are no longer kept; a minute by default. */
  keepMs: number
}

const MIB = 1_048_576
export const DEFAULT_WATCH_SETTINGS: Readonly<WatchSettings> = {
  cellBytesMax: MIB,
  totalBytesMax: 64 * MIB,
  keepMs: 60_000,
}

export const WATCH_SETTINGS: Shape<WatchSettings> = {
  cellBytesMax: COUNT,
  totalBytesMax: COUNT,
  keepMs: COUNT,
}
