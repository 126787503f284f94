import type { CheckTask } from '../../backup/restore/threads/restore-task.ts'
import type { CheckedFor, SeparateChecks } from '../../backup/restore/threads/restore-threads.ts'
import type { Clock } from '../../base/clock.ts'
import { AccountPlaces } from '../../base/fairness/account-places.ts'
import type { Log } from '../../base/log.ts'
import { LruCache } from '../../base/lru-cache.ts'
import { CellError } from '../../errors.ts'
import { CheckerProcess } from '../children/checker-process.ts'

/** Each takes a core. */
const AT_ONCE = 2
/** For so long a cell's next bases are stored without a check that took too long: each would hold up its account's others. */
const NOT_AGAIN_MS = 24 * 3_600_000
const CELLS_REMEMBERED_MAX = 10_000

/** The checks that the schema of a tenant can make long, each in a process of its own that is ended when it takes too long. */
export class CheckProcesses implements SeparateChecks {
  readonly #clock: Clock
  readonly #log: Log
  readonly #places = new AccountPlaces(AT_ONCE)
  /** When the last check of a cell took too long, by the monotonic clock. */
  readonly #givenUpAt = new LruCache<number>(CELLS_REMEMBERED_MAX)

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  async run(task: CheckTask, bytes: number, whose: CheckedFor): Promise<string | undefined> {
    const { account, signal, base, drillOf } = whose
    if (base !== undefined && this.#tookTooLong(base, NOT_AGAIN_MS)) {
      this.#log.info(
        { cellId: base },
        "a cell is backed up without SQLite's check, which took too much time or memory lately",
      )
      return undefined
    }
    // Drills come a week apart, one after the other. The cell's bases try again.
    if (drillOf !== undefined && this.#tookTooLong(drillOf, Number.POSITIVE_INFINITY)) {
      this.#log.info(
        { cellId: drillOf },
        "a backup is proven without SQLite's check, which took too much time or memory the last time",
      )
      return undefined
    }
    const cellId = base ?? drillOf
    const outcome = await this.#places.run(account, signal, () =>
      new CheckerProcess(bytes, this.#clock, this.#log).run(task, signal),
    )
    if (outcome !== undefined) {
      if (cellId !== undefined) this.#givenUpAt.delete(cellId)
      return outcome.value
    }
    if (cellId !== undefined) this.#givenUpAt.set(cellId, this.#clock.monotonic())
    return this.#givenUp(task)
  }

  #tookTooLong(cellId: string, withinMs: number): boolean {
    const at = this.#givenUpAt.get(cellId)
    return at !== undefined && this.#clock.monotonic() - at < withinMs
  }

  #givenUp(task: CheckTask): undefined {
    const { kind, file } = task
    if (kind === 'examine')
      throw new CellError(
        'statement_timeout',
        "SQLite's integrity_check of the cell took too much time or memory: the check computes its generated columns and indexed expressions, asks its virtual tables, and looks at each column of each row. A check without deep proves its bytes.",
      )
    // Its bytes are proven; whoever wrote such columns has only this cell in their way.
    this.#log.warn(
      { file },
      "SQLite's check of a cell took too much time or memory, because of the cell's schema; it goes on without",
    )
  }
}
