import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CollectedLook, LogPiece, UnshippedLog } from '../changes/log/cell-log.ts'
import type { ClockWatch } from '../versions/clock-watch.ts'
import type { LookNeeds } from './flushes.ts'
import { type LeftOut, type LogObject, type MadeLogObject, makeLogObject } from './log/log-object.ts'
import type { LogSequence } from './log/log-sequence.ts'
import type { LogPort } from './log-port.ts'
import { type ShippingOrder, selectLogs } from './log-selection.ts'
import { unshippedBytes } from './unshipped-bound.ts'

/** What one object is made of at most. */
const COLLECT = { cellsMax: 10_000, bytesMax: 64 * 1_048_576 }

/**
 * `all`: everything was found that could be read; `more`: the object had no room for all, and the next one follows at once;
 * `later`: some WALs were reset while they were read, or there may be cells that nobody has found yet.
 */
export type Outcome = 'all' | 'more' | 'later'

/** What a look at the cells has found. */
export interface Look
  extends Pick<CollectedLook, 'asOf' | 'allAsOf' | 'withoutHistory' | 'unreadable' | 'askedIn' | 'complete'> {
  /** What it has found. Undefined if that is nothing to store. */
  object: LogObject | undefined
  outcome: Outcome
  /** Of the WALs in the object. */
  bytes: number
}

export interface LookParts {
  cells: LogPort
  sequence: LogSequence
  unreadable: UnreadableCells
  /** Proves that the prefix is this store's, before the first object. */
  claim(signal: AbortSignal): Promise<void>
  storeId: string
  spoolDirectory: string
  /** Called before an object is made. */
  onCollected(collected: CollectedLook): void
  /** While it holds back, no object says up to when it is complete: the clock may be wrong. */
  clockWatch: ClockWatch
  /** Who comes first in the next object. */
  order: ShippingOrder
  clock: Clock
}

/** Asks the cells for what is not shipped, and makes an object of it. */
export async function lookAtCells(parts: LookParts, needs: LookNeeds, signal: AbortSignal): Promise<Look> {
  const { cells, sequence, unreadable, claim, storeId, spoolDirectory, onCollected, clockWatch, clock } =
    parts
  const collected = await cells.collectLogs({ ...COLLECT, except: unreadable.cellIds, ...needs })
  onCollected(collected)
  const { asOf } = collected
  if (collected.logs.length === 0)
    return { ...collected, object: undefined, outcome: collected.isAll ? 'all' : 'later', bytes: 0 }
  await claim(signal)
  const { logs, isAll } = selectLogs(collected.logs, parts.order)
  const next = await sequence.next({ signal })
  const isWhole = isAll && collected.isAll
  const isComplete = isWhole && collected.unreadable.length === 0 && !clockWatch.isPaused()
  const completeTo = isComplete ? asOf : undefined
  const order = { ...next, store_id: storeId, logs, completeTo, now: clock.now() }
  const made = await makeLogObject(order, { directory: spoolDirectory, signal })
  const { object } = made
  const noted = unreadable.note(made)
  const hasMore = collected.hasMore || !isAll
  return {
    object,
    outcome: outcomeOf({ object, ...noted }, { isWhole, hasMore }),
    asOf,
    allAsOf: collected.allAsOf,
    withoutHistory: collected.withoutHistory,
    askedIn: collected.askedIn,
    complete: completeIn(object, collected),
    unreadable: [...collected.unreadable, ...noted.unreadable.map(({ cellId }) => cellId)],
    bytes: unshippedBytes(logs),
  }
}

/** The awaited cells of which everything that was collected is in the object. */
function completeIn(
  object: LogObject | undefined,
  { complete, logs }: CollectedLook,
): Record<string, number> {
  const places = new Map(object?.places.map((place) => [place.cellId, place]))
  const isIn = ({ cellId, pieces }: UnshippedLog) => {
    const [place, last] = [places.get(cellId), pieces.at(-1)]
    return place?.sequence === last?.sequence && place?.frames === last?.to
  }
  const partial = new Set(logs.filter((log) => !isIn(log)).map(({ cellId }) => cellId))
  return Object.fromEntries(Object.entries(complete).filter(([cellId]) => !partial.has(cellId)))
}

/** @param waiting `isWhole`: all that waits was to be in the object; `hasMore`: there was no room for some of it */
function outcomeOf(
  { object, leftOut, unreadable }: MadeLogObject,
  waiting: { isWhole: boolean; hasMore: boolean },
): Outcome {
  const isFutile = object === undefined && unreadable.length === 0
  if (waiting.hasMore && !isFutile) return 'more'
  return leftOut.length > 0 || !waiting.isWhole ? 'later' : 'all'
}

/**
 * Cells whose files cannot be read. They hold up no others, and are tried again once a look has begun with all cells.
 *
 * A file that does not have what it was collected for is mostly a WAL that was reset meanwhile, and then the next look finds
 * another file. If it finds the same one, and that still does not have it, the file is damaged.
 */
export class UnreadableCells {
  readonly #log: Log
  readonly #cells = new Set<string>()
  /** Those that the log names already. */
  #logged: ReadonlySet<string> = new Set()
  /** The file for which a cell was left out last. */
  readonly #suspects = new Map<string, string>()

  constructor(log: Log) {
    this.#log = log
  }

  /** Those that the next look leaves out. */
  get cellIds(): string[] {
    return [...this.#cells]
  }

  /** Notes what could not be read for an object. @returns the same, with damaged files among those that cannot be read */
  note({ object, leftOut, unreadable }: MadeLogObject): Pick<MadeLogObject, 'leftOut' | 'unreadable'> {
    const isDamaged = ({ cellId, piece }: LeftOut) => this.#suspects.get(cellId) === fileOf(piece)
    const damaged = leftOut.filter(isDamaged)
    const reset = leftOut.filter((each) => !isDamaged(each))
    for (const { cellId } of object?.places ?? []) this.#suspects.delete(cellId)
    for (const { cellId, piece } of leftOut) this.#suspects.set(cellId, fileOf(piece))
    const all = [...unreadable, ...damaged.map(({ cellId, piece }) => ({ cellId, error: damage(piece) }))]
    for (const { cellId, error } of all) this.#add(cellId, error)
    return { leftOut: reset, unreadable: all }
  }

  /** The next look begins with all cells. */
  tryAgain(): void {
    this.#logged = new Set(this.#cells)
    this.#cells.clear()
  }

  #add(cellId: string, err: unknown): void {
    this.#cells.add(cellId)
    if (!this.#logged.has(cellId))
      this.#log.error({ cellId, err }, 'the files of a cell cannot be read, so it is not shipped')
  }
}

function fileOf({ path, salts }: LogPiece): string {
  return `${salts} ${path}`
}

function damage({ path }: LogPiece): Error {
  return new Error(`${path} is damaged: it does not have the write-ahead log that was kept there.`)
}
