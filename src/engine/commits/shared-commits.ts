import { setImmediate } from '../../base/clock.ts'
import { ScratchMemory } from '../../base/machine/scratch-memory.ts'
import type { CommitLog, LoggedCell } from '../../commit-log/commit-log.ts'
import type { LogRecord } from '../../commit-log/log-format.ts'
import type { GroupWork, Outcome, Settle } from './work-group.ts'

/** Most batches need less for the bytes of their records. */
const MEMORY_BYTES_MAX = 1_048_576

/** What the commits of a cell have added to its WAL. */
export interface SharedRecord extends LogRecord {
  cell: LoggedCell
}

/** A cell as its commits are stored: see `CommitSync`. */
export interface SharedCell {
  readonly usable: boolean
  readonly syncs: {
    readonly pending: boolean
    defer<T>(run: () => T): T
    record(memory: ScratchMemory): SharedRecord | undefined
    recorded(record: SharedRecord): void
    sync(): Promise<void>
  }
  commitWaiting(settle?: Settle): void
}

/**
 * Commits of several cells that reach the disk together, in the commit log: one write and one fdatasync instead of an fsync
 * for each cell. One cell alone is faster with its own fsync, inside its COMMIT, because the log costs another read and write.
 */
export class SharedCommits {
  readonly log: CommitLog
  /** For the bytes of one batch. */
  readonly #memory = new ScratchMemory(MEMORY_BYTES_MAX)
  /** Cells whose group commits wait for the end of this turn of the event loop. */
  #waiting = new Set<SharedCell>()

  constructor(log: CommitLog) {
    this.log = log
  }

  /** Has a cell's group committed at the end of this turn of the event loop, together with those of other cells. */
  join(cell: SharedCell): void {
    if (this.#waiting.size === 0) setImmediate(() => this.#commitWaiting())
    this.#waiting.add(cell)
  }

  /**
   * Stores the commits that the cells have deferred.
   *
   * @returns the cells that have to be synced each on its own, with `syncs.sync()`
   */
  store<Cell extends SharedCell>(cells: readonly Cell[]): readonly Cell[] {
    if (cells.length < 2) return cells
    this.#memory.reset()
    const records = new Map<Cell, SharedRecord>()
    for (const cell of cells) {
      const record = cell.syncs.record(this.#memory)
      if (record !== undefined) records.set(cell, record)
    }
    if (records.size < 2 || !this.log.append([...records.values()])) return cells
    for (const [cell, record] of records) cell.syncs.recorded(record)
    return cells.filter((cell) => !records.has(cell))
  }

  #commitWaiting(): void {
    const cells = [...this.#waiting]
    this.#waiting = new Set()
    const [first] = cells
    if (cells.length === 1) first?.commitWaiting()
    else void this.#commitTogether(cells)
  }

  /** Never rejects: every error is the outcome of some work. */
  async #commitTogether(cells: readonly SharedCell[]): Promise<void> {
    const held = new Map(cells.map((cell) => [cell, new HeldOutcomes()]))
    for (const [cell, outcomes] of held) {
      const commit = () => cell.commitWaiting((work, outcome) => outcomes.hold(work, outcome))
      if (cell.usable) cell.syncs.defer(commit)
      else commit()
    }
    const alone = new Set(this.store(cells.filter(({ syncs }) => syncs.pending)))
    for (const [cell, outcomes] of held) if (!alone.has(cell)) outcomes.settle()
    const sync = async (cell: SharedCell) => {
      const outcomes = held.get(cell)
      await cell.syncs.sync().then(
        () => outcomes?.settle(),
        (error) => outcomes?.refuse(error),
      )
    }
    await Promise.all([...alone].map(sync))
  }
}

/** What a group has to tell once its commits are on disk. */
class HeldOutcomes {
  readonly #held: [work: GroupWork, outcome: Outcome][] = []

  hold(work: GroupWork, outcome: Outcome): void {
    this.#held.push([work, outcome])
  }

  settle(): void {
    for (const [work, outcome] of this.#held) work.settle(outcome)
  }

  /** Nobody can tell any more whether what was committed stays. */
  refuse(error: unknown): void {
    for (const [work, outcome] of this.#held) work.settle(outcome.ok ? { ok: false, error } : outcome)
  }
}
