import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { AccountRotation } from '../../base/account-rotation.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { among, type CollectedLogs, type CollectLimits, type ShippedPlace } from './cell-log.ts'
import type { ChangeTrackers } from './change-trackers.ts'

/** Cells to look at in one turn of the event loop: each costs about as much as a statement. */
const CELLS_PER_TURN = 16
/**
 * Whose rows are saved together, in one turn of the event loop: each takes up to two milliseconds, and other processes wait meanwhile
 * to save theirs.
 */
const CELLS_PER_SAVE = 4
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
  /** Up to where cells are stored, as their rows do not say yet. */
  readonly #places = new Map<string, ShippedPlace>()
  #noting: Promise<void> | undefined

  /** @param accountOf empty for a cell of the owner, and for one that this process does not know */
  constructor(trackers: ChangeTrackers, accountOf: (cellId: string) => string, clock: Clock, log: Log) {
    this.#trackers = trackers
    this.#accountOf = accountOf
    this.#clock = clock
    this.#log = log
  }

  /** Accounts take turns, also from one call to the next; of each, those cells come first of which something was stored longest ago. */
  async collect({ cellsMax, bytesMax, except, about, wanted = [] }: CollectLimits): Promise<CollectedLogs> {
    // What is stored already must not be collected once more.
    if (this.#noting !== undefined) await this.#noting
    const asOf = this.#clock.now()
    const collected: CollectedLogs = {
      logs: [],
      isAll: true,
      hasMore: false,
      withoutHistory: [],
      withoutHistoryCount: 0,
      unreadable: [],
      asOf,
      whole: [],
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
    collected.whole = wanted.filter((cellId) => !partial.has(cellId))
    return about === undefined
      ? collected
      : { ...collected, withoutHistory: among(collected.withoutHistory, about) }
  }

  /**
   * Everything before these places is in the object store. Resolves once the rows say so, a few cells in each turn of the event
   * loop. They are fsynced once for all, in the thread pool: after a power loss, an old row would have all that was shipped since
   * shipped once more, with the time of the restart.
   */
  shipped(places: readonly ShippedPlace[]): Promise<void> {
    for (const place of places)
      if (this.#trackers.isUnshipped(place.cellId)) this.#places.set(place.cellId, place)
    if (this.#places.size === 0) return Promise.resolve()
    this.#noting ??= this.#noteInTurns().finally(() => {
      this.#noting = undefined
    })
    return this.#noting
  }

  /** At once, before another process takes the cell over, or all cells. */
  noteShipped(cellIds: Iterable<string> = [...this.#places.keys()]): void {
    const places = [...cellIds].flatMap((cellId) => this.#places.get(cellId) ?? [])
    if (places.length === 0) return
    for (const { cellId } of places) this.#places.delete(cellId)
    this.#trackers.together(() => {
      for (const place of places) {
        // Another process may have taken it over in between, or it was deleted.
        if (!this.#trackers.isUnshipped(place.cellId)) continue
        this.#trackers.get(place.cellId).shipped(place)
        this.#trackers.comesLast(place.cellId)
      }
    })
  }

  async #noteInTurns(): Promise<void> {
    for (;;) {
      this.noteShipped([...this.#places.keys()].slice(0, CELLS_PER_SAVE))
      if (this.#places.size === 0) break
      await turnOfTheLoop()
    }
    void this.#trackers.sync()
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
      } else this.#trackers.settled(cellId)
      return NOTHING
    }
    const { pieces, bytes, isAll, hasMore } = unshipped
    if (!isAll) collected.isAll = false
    if (hasMore) collected.hasMore = true
    if (pieces.length === 0) {
      if (isAll) this.#trackers.settled(cellId)
      return { bytes: 0, isWhole: isAll }
    }
    const history = tracker.history.shipped?.id as string
    collected.logs.push({ cellId, history, pieces })
    this.#turns.hadTurn(this.#accountOf(cellId))
    return { bytes, isWhole: isAll }
  }
}
