import type { RestoreTask } from '../../backup/restore/threads/restore-task.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { type LogMessage, logForChild } from '../protocol/log-message.ts'
import { fromWireError, type WireError } from '../protocol/wire-error.ts'
import { ChildLink } from './child-link.ts'
import { spawnChecker } from './spawn-child.ts'

/** The messages between a checker and the process that started it: one task, and its outcome. */

export type ToChecker = Extract<RestoreTask, { kind: 'import' | 'prove' | 'examine' }>

export type FromChecker =
  | { type: 'done'; value: string | undefined; error: WireError | undefined }
  | LogMessage

/** Bytes of memory that a check may take: SQLite reads page by page. */
const MEMORY_BYTES = 256 * 1_048_576
/** How long the check of a database may take: ten times what a slow disk needs. */
const CHECK_MS_MIN = 20_000
const BYTES_PER_MS_MIN = 4_096
/** The deadline comes first, unless the parent has ended. */
const CPU_SECONDS_MORE = 10

/** A process for one task on a database that a tenant wrote. It is ended if it takes too long. */
export class CheckerProcess {
  readonly #link: ChildLink<ToChecker, FromChecker>
  readonly #clock: Clock
  /** Milliseconds. */
  readonly #msMax: number
  #done: Extract<FromChecker, { type: 'done' }> | undefined

  /**
   * @param bytes of the database
   * @throws the system's error if it can't start another process
   */
  constructor(bytes: number, clock: Clock, log: Log) {
    this.#clock = clock
    this.#msMax = CHECK_MS_MIN + Math.ceil(bytes / BYTES_PER_MS_MIN)
    const child = spawnChecker(MEMORY_BYTES, Math.ceil(this.#msMax / 1_000) + CPU_SECONDS_MORE)
    this.#link = new ChildLink(child, (message) => {
      if (message.type === 'done') {
        this.#done = message
        this.kill()
      } else logForChild(log, message, { checker: this.#link.identity.pid })
    })
    this.#link.yieldToOthers()
  }

  kill(): void {
    this.#link.kill()
  }

  /**
   * @param signal ends the process
   * @returns undefined if the process ended without an outcome: somebody killed it, or the task took too much time or memory
   * @throws as the task; the signal's reason
   */
  async run(task: ToChecker, signal?: AbortSignal): Promise<{ value: string | undefined } | undefined> {
    const kill = () => this.kill()
    const timer = this.#clock.setTimer(kill, this.#msMax)
    signal?.addEventListener('abort', kill, { once: true })
    try {
      if (signal?.aborted) kill()
      else this.#link.send(task)
      await this.#link.ended
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', kill)
    }
    if (this.#done?.error !== undefined) throw fromWireError(this.#done.error)
    if (this.#done === undefined) signal?.throwIfAborted()
    return this.#done
  }
}
