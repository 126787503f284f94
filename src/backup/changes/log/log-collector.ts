import { type Clock, turnOfTheLoop } from '../../../base/clock.ts'
import { AccountRotation } from '../../../base/fairness/account-rotation.ts'
import type { Log } from '../../../base/log.ts'
import type { ChangeTracker } from '../change-tracker.ts'
import type { ChangeTrackers } from '../change-trackers.ts'
import { among, type CollectedLogs, type CollectLimits, type ShippedPlace } from './cell-log.ts'

/** Cells to look at in one turn of the event loop: each costs about as much as a statement. */
const CELLS_PER_TURN = 16
/** Whose rows are saved together in one turn: some microseconds each. */
const CELLS_PER_SAVE = 64
/** Whose segments are removed in one turn: the file system takes up to two milliseconds for each. */
const CELLS_PER_REMOVAL = 4
const NOTHING = { bytes: 0, isWhole: true }

/** Tells what the cells of this process have not shipped yet. */
export class LogCollector {
  readonly #trackers: ChangeTrackers
  readonly #accountOf: (cellId: string) => string
  readonly #clock: Clock
  readonly #log: Log
  /** Cells that were told of. */
  readonly #unreadable = new Set<string>()
  /** Of the accounts of which something was collected. */
  readonly #turns = new AccountRotation()
  /** Cells whose rows do not say yet up to where they are stored. */
  readonly #unsaved = new Set<string>()
  /** Cells that may have segments of which all is stored. */
  readonly #withSegments = new Set<string>()
  #isTidying = false

  /** @param accountOf empty for a cell of the owner, and for one that this process does not know */
  constructor(trackers: ChangeTrackers, accountOf: (cellId: string) => string, clock: Clock, log: Log) {
    this.#trackers = trackers
    this.#accountOf = accountOf
    this.#clock = clock
    this.#log = log
  }

  /** Accounts take turns, also from one call to the next; of each, those cells come first of which something was stored longest ago. */
  async collect({
    cellsMax,
    bytesMax,
    except,
    historyOf,
    awaited = [],
  }: CollectLimits): Promise<CollectedLogs> {
    const asOf = this.#clock.now()
    const collected: CollectedLogs = {
      logs: [],
      isAll: true,
      hasMore: false,
      withoutHistory: [],
      withoutHistoryCount: 0,
      unreadable: [],
      asOf,
      allAsOf: null,
      complete: [],
    }
    const partial = new Set<string>()
    const leftOut = new Set(except)
    let room = bytesMax
    let looked = 0
    const waiting = this.#turns.round(this.#trackers.unshipped, this.#accountOf)
    for (let cellId = waiting.take(); cellId !== undefined; cellId = waiting.take()) {
      if (looked++ % CELLS_PER_TURN === CELLS_PER_TURN - 1) await turnOfTheLoop()
      // Another process may have taken it over in between: its row and its segments are that process's.
      if (!this.#trackers.isUnshipped(cellId)) {
        partial.add(cellId)
        continue
      }
      if (leftOut.has(cellId)) {
        collected.unreadable.push(cellId)
        continue
      }
      const isFull = collected.logs.length >= cellsMax || (room <= 0 && collected.logs.length > 0)
      if (isFull) {
        collected.isAll = false
        collected.hasMore = true
        for (const left of [cellId, ...waiting]) partial.add(left)
        break
      }
      const { bytes, isWhole } = this.#collectCell(cellId, room, collected)
      room -= bytes
      if (!isWhole) partial.add(cellId)
    }
    collected.complete = awaited.filter((cellId) => !partial.has(cellId))
    return historyOf === undefined
      ? collected
      : { ...collected, withoutHistory: among(collected.withoutHistory, historyOf) }
  }

  /**
   * Everything before these places is in the object store: nothing of it is collected again. The rest takes a few cells in each turn
   * of the event loop. The rows are saved first, and fsynced once for all, in the thread pool: after a power
   * loss, an old row would have all that was shipped since shipped once more, with the time of the restart.
   */
  shipped(places: readonly ShippedPlace[]): void {
    for (const place of places) {
      const { cellId } = place
      if (!this.#trackers.isUnshipped(cellId)) continue
      this.#trackers.comesLast(cellId)
      if (!this.#trackers.get(cellId).ship(place)) continue
      this.#unsaved.add(cellId)
      this.#withSegments.add(cellId)
    }
    if (this.#withSegments.size > 0 && !this.#isTidying) void this.#tidyInTurns()
  }

  /** Never rejects: a tracker's saves and removals do not throw. */
  async #tidyInTurns(): Promise<void> {
    this.#isTidying = true
    do {
      if (this.#unsaved.size > 0) this.#saveSome()
      else this.#removeSome()
      await turnOfTheLoop()
    } while (this.#unsaved.size > 0 || this.#withSegments.size > 0)
    this.#isTidying = false
  }

  #saveSome(): void {
    this.#trackers.together(() => {
      this.#take(this.#unsaved, CELLS_PER_SAVE, (tracker) => tracker.saveShipped())
    })
    if (this.#unsaved.size === 0) void this.#trackers.sync()
  }

  #removeSome(): void {
    this.#take(this.#withSegments, CELLS_PER_REMOVAL, (tracker) => tracker.removeShipped())
  }

  #take(from: Set<string>, count: number, step: (tracker: ChangeTracker) => void): void {
    let left = count
    for (const cellId of from) {
      if (left-- === 0) break
      from.delete(cellId)
      // Another process may have taken it over in between, with its row and its segments; or it was deleted.
      if (this.#trackers.isUnshipped(cellId)) step(this.#trackers.get(cellId))
    }
  }

  /** The cell has nothing to ship: what its tracker knows has to be in its row. */
  #settled(cellId: string): void {
    if (this.#unsaved.delete(cellId)) this.#trackers.get(cellId).saveShipped()
    if (this.#withSegments.delete(cellId)) this.#trackers.get(cellId).removeShipped()
    this.#trackers.settled(cellId)
  }

  /** What is not shipped of a cell takes too much room: its next version begins a new history. */
  dropHistory(cellId: string): void {
    this.#trackers.use(cellId, (tracker) => tracker.dropHistory())
  }

  /** @returns bytes of what was added, and whether it is all */
  #collectCell(cellId: string, room: number, collected: CollectedLogs): { bytes: number; isWhole: boolean } {
    const tracker = this.#trackers.get(cellId)
    let unshipped: ReturnType<typeof tracker.collect>
    try {
      unshipped = tracker.collect(collected.logs.length === 0 ? Math.max(room, 1) : room)
    } catch (err) {
      if (!this.#unreadable.has(cellId))
        this.#log.error({ cellId, err }, 'the files of a cell cannot be read, so it is not shipped')
      this.#unreadable.add(cellId)
      collected.unreadable.push(cellId)
      return NOTHING
    }
    this.#unreadable.delete(cellId)
    if (unshipped === undefined) {
      if (tracker.isChanged) {
        collected.withoutHistory.push(cellId)
        collected.withoutHistoryCount++
      } else this.#settled(cellId)
      return NOTHING
    }
    const { pieces, bytes, isAll, hasMore } = unshipped
    if (!isAll) collected.isAll = false
    if (hasMore) collected.hasMore = true
    if (pieces.length === 0) {
      if (isAll) this.#settled(cellId)
      return { bytes: 0, isWhole: isAll }
    }
    const history = tracker.history.shipped?.id as string
    collected.logs.push({ cellId, history, pieces })
    this.#turns.hadTurn(this.#accountOf(cellId))
    return { bytes, isWhole: isAll }
  }
}
