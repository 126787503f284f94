import { isCellError } from '../errors.ts'
import { isError } from './any-realm.ts'
import type { Clock } from './clock.ts'

/** Something that went wrong, as the log has it. */
export interface Failure {
  level: 'warn' | 'error'
  message: string
  /** The code and the message of its cause; null where it has none. */
  code: string | null
  why: string | null
  cellId: string | null
  accountId: string | null
  requestId: string | null
  /** How often it happened in a row. */
  count: number
  /** Of the newest one, in epoch milliseconds. */
  at: number
}

const KEPT = 20
const WHY_LENGTH_MAX = 300

/** The newest failures of a process. Memory is bounded: an older one makes room, and a repeated one is counted. */
export class RecentFailures {
  readonly #clock: Clock
  readonly #kept: Failure[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param fields those of a line of the log */
  note(level: Failure['level'], fields: object, message: string): void {
    const { cellId, accountId, requestId, err } = fields as Record<string, unknown>
    const failure: Failure = {
      level,
      message,
      code: isCellError(err) ? err.code : null,
      why: isError(err) ? err.message.slice(0, WHY_LENGTH_MAX) : null,
      cellId: textOf(cellId),
      accountId: textOf(accountId),
      requestId: textOf(requestId),
      count: 1,
      at: this.#clock.now(),
    }
    const last = this.#kept.at(-1)
    const isRepeated =
      last?.message === message && last.cellId === failure.cellId && last.code === failure.code
    if (isRepeated) this.#kept[this.#kept.length - 1] = { ...failure, count: last.count + 1 }
    else this.#kept.push(failure)
    if (this.#kept.length > KEPT) this.#kept.shift()
  }

  /** Newest first. */
  list(): Failure[] {
    return this.#kept.toReversed()
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
