import type { Clock, Timer } from '../../../base/clock.ts'
import { type CheckTask, LEFT, type RestoreTask, type RestoreTaskRunner } from './restore-task.ts'
import { RestoreTasks } from './restore-tasks.ts'
import { assertThreadFile, RestoreThread } from './restore-thread.ts'

/** From this size on, a thread does the checks. A thread takes 30 ms to start; smaller members need only a few ms. */
export const OWN_THREAD_BYTES = 4 * 1_048_576

/** Milliseconds that a thread is kept for the next restore: cells are often restored one after the other. */
const KEPT_MS = 10_000

/** Whose cell a check is about, and who waits for it. */
export interface CheckedFor {
  /** Empty for a cell of the owner. */
  account: string
  signal: AbortSignal | undefined
  /** The cell, if this proves a copy for a new base of it: such a check is not tried again soon after it took too long. */
  base?: string | undefined
  /** The cell, if this is a drill of it: such a check is not tried again while the cell's last one took too long. */
  drillOf?: string | undefined
  /** Also what was checked before it was stored. */
  checksAgain?: boolean | undefined
}

/** Runs checks that may take hours, because of the schema, where they can be ended. */
export interface SeparateChecks {
  /**
   * @returns as the task; undefined for the proof of a database that took too long: its bytes are proven
   * @throws as the task; `statement_timeout` for an examination that took too long; the signal's reason
   */
  run(task: CheckTask, bytes: number, whose: CheckedFor): Promise<string | undefined>
}

/**
 * Threads for restores of large databases. The start of one takes 40 ms of processor time, so some are kept for a while
 * after their restores. A kept thread does not keep the process alive.
 */
export class RestoreThreads {
  readonly #clock: Clock
  readonly #keptMax: number
  readonly #kept: KeptThread[] = []
  readonly #separate: SeparateChecks | undefined
  #closed = false

  /**
   * @param keptMax threads to keep: as many as restores run at the same time
   * @param separate without it all checks run here: then whoever writes the cells is trusted
   * @throws `internal` if the file of the threads is missing
   */
  constructor(clock: Clock, keptMax = 1, separate?: SeparateChecks) {
    assertThreadFile()
    this.#separate = separate
    this.#clock = clock
    this.#keptMax = keptMax
  }

  /** The caller must release the thread or close it. */
  take(): RestoreThread {
    const kept = this.#takeKept()
    if (kept === undefined || kept.failed) return new RestoreThread()
    kept.keepsAlive(true)
    return kept
  }

  /** @param thread has finished all its tasks, and has no file open */
  async release(thread: RestoreThread): Promise<void> {
    if (this.#closed || this.#kept.length >= this.#keptMax) return thread.close()
    thread.keepsAlive(false)
    const timer = this.#clock.setTimer(() => {
      this.#kept.splice(this.#kept.indexOf(kept), 1)
      void thread.close()
    }, KEPT_MS)
    const kept = { thread, timer }
    this.#kept.push(kept)
  }

  /** Runs one task on a file of this size: on a thread if it is large, otherwise right here. @throws as the task */
  async run(task: RestoreTask, size: number): Promise<string | undefined> {
    if (size < OWN_THREAD_BYTES) return await new RestoreTasks().run(task)
    const thread = this.take()
    try {
      const result = await thread.run(task)
      await this.release(thread)
      return result
    } catch (error) {
      await thread.close()
      throw error
    }
  }

  /**
   * Runs SQLite's check of a database of this size.
   *
   * @param runner of the file's other tasks; by default as {@link run} chooses
   * @throws as the task, and as {@link SeparateChecks.run}
   */
  async check(
    task: CheckTask,
    size: number,
    whose: CheckedFor,
    runner?: RestoreTaskRunner,
  ): Promise<string | undefined> {
    const run = (each: CheckTask) => runner?.run(each) ?? this.run(each, size)
    if (this.#separate === undefined) return run(task)
    const result = await run({ ...task, leavesLongChecks: true })
    return result === LEFT ? this.#separate.run(task, size, whose) : result
  }

  /** Closes the kept threads. No other is kept afterwards. */
  async close(): Promise<void> {
    this.#closed = true
    for (let kept = this.#takeKept(); kept !== undefined; kept = this.#takeKept()) await kept.close()
  }

  /** The one that was used last: the others run into their time. */
  #takeKept(): RestoreThread | undefined {
    const kept = this.#kept.pop()
    kept?.timer.cancel()
    return kept?.thread
  }
}

interface KeptThread {
  thread: RestoreThread
  timer: Timer
}
