import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { CellError } from '../../../../src/errors.ts'
import type { CellStore } from '../../../../src/store/cell-store.ts'
import type { Cell } from '../../../../src/store/open/cell.ts'
import { ScratchPlace } from '../scratch-store.ts'
import type { TimeLine } from './time-line.ts'

const HOUR_MS = 3_600_000
/** Turns of the event loop in which no file and no other process is waited for. */
const TURNS_PER_TIMER = 50
/** Before a timer that ends what takes too long. */
const TURNS_PER_DEADLINE = 5_000
/** What the real machine does meanwhile, however long it takes, takes no time on the clock. */
const WORK = /^(FSReq|ProcessWrap)/
const DEADLINE_MS_MIN = 60_000
/** A take-over ends if the object store does not answer for seconds: while a store starts, every timer counts as a deadline. */
const START = 0
const OPTIONS = {
  openCellsMax: 2,
  checkpointBytes: 60_000,
  takeOver: true,
  backups: { maxLagMs: 10_000 },
} as const

/** The store of a {@link TimeModel}, on a clock that is moved by hand, and what is known of its cells. */
export class StoreInTime {
  readonly place = new ScratchPlace()
  readonly lines: TimeLine[] = []
  /** The clock when everything was last shipped for certain: a stop ships only what it can before its deadline. */
  shippedAt = 0
  #store!: CellStore
  /** The latest that the clock has been. */
  #latest = 0

  get store(): CellStore {
    return this.#store
  }

  get latest(): number {
    return this.#latest
  }

  async create(): Promise<void> {
    this.#store = await this.place.create(OPTIONS)
  }

  close(): Promise<void> {
    return this.settle(this.#store.close())
  }

  async open({ takeOver = true } = {}): Promise<void> {
    this.#store = await this.settle(this.place.open({ ...OPTIONS, takeOver }), START)
  }

  async reopen(): Promise<void> {
    await this.close()
    await this.open()
  }

  /** After a total loss. */
  async openLost(): Promise<void> {
    this.#store = await this.settle(this.place.openOrCreate(OPTIONS), START)
  }

  async dispose(): Promise<void> {
    await this.settle(this.place.directory.close())
  }

  now(): number {
    const now = this.place.clock.now()
    this.#latest = Math.max(this.#latest, now)
    return now
  }

  pass(ms: number): void {
    this.place.clock.advance(ms)
    this.now()
  }

  stepClock(ms: number): void {
    // A cell may have looked at the clock since its last commit, when it was opened, for example.
    for (const line of this.lines) line.looked(this.now())
    this.place.clock.step(ms)
    this.now()
  }

  /** @returns the cells that their next version begins to ship */
  async flush(): Promise<readonly string[]> {
    const { withoutHistory } = await this.settle(this.#store.backups.flush())
    this.shippedAt = this.#latest
    return withoutHistory
  }

  async backUp(kind: 'incremental' | 'snapshot', line: TimeLine): Promise<void> {
    const outcome = await this.outcome(this.#store.backups[kind](line.cellId))
    line.cut(this.#latest)
    if (outcome instanceof CellError && outcome.code !== 'busy') throw outcome
  }

  stateOf({ cellId }: TimeLine): string {
    return stateOf(this.#store.openCell(cellId))
  }

  /** @param deadlineMs timers from there on end what takes too long */
  async settle<T>(work: Promise<T>, deadlineMs = DEADLINE_MS_MIN): Promise<T> {
    try {
      return await this.#advanceUntil(work, deadlineMs)
    } finally {
      const latest = this.now()
      for (const line of this.lines) line.looked(Math.max(latest, this.#latest))
    }
  }

  async outcome<T>(work: Promise<T>): Promise<T | CellError> {
    try {
      return await this.settle(work)
    } catch (error) {
      if (error instanceof CellError) return error
      throw error
    }
  }

  /** Time passes slowly enough that little of it is between two commits. */
  async #advanceUntil<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
    let settled = false
    const mark = () => {
      settled = true
    }
    work.then(mark, mark)
    for (let idle = 0; !settled; ) {
      await turnOfTheLoop()
      if (settled || process.getActiveResourcesInfo().some((what) => WORK.test(what))) continue
      idle++
      const { nextTimerMs } = this.place.clock
      if (nextTimerMs === undefined || nextTimerMs > HOUR_MS) continue
      if (idle < (nextTimerMs < deadlineMs ? TURNS_PER_TIMER : TURNS_PER_DEADLINE)) continue
      idle = 0
      this.place.clock.advance(nextTimerMs)
    }
    return work
  }
}

/** The counter and every row: a state that is never the same twice. */
export function stateOf(cell: Cell): string {
  const [row] = cell.sql<{ n: number; rows: string | null }>(
    "SELECT n, (SELECT group_concat(n || ':' || length(x)) FROM (SELECT n, x FROM log ORDER BY n DESC)) AS rows FROM counter",
  ).rows
  if (row === undefined || !row.rows?.startsWith(`${row.n}:`))
    throw new Error(`half a transaction: ${row?.n} ${row?.rows}`)
  return `${row.n} ${row.rows}`
}
