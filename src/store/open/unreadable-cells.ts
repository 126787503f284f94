import type { Clock } from '../../base/clock.ts'
import { isUnreadable } from '../../base/files/unreadable.ts'
import type { Log } from '../../base/log.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'

/**
 * The cells that were found unreadable. Whoever looks at the files of many cells goes on with the next one. The log names such
 * a cell once, until a look at it succeeds; until then it counts as one whose disk has failed. It is not in quarantine: nothing closes
 * it, and a restart forgets the list.
 */
export class UnreadableCells {
  readonly #clock: Clock
  readonly #log: Log
  /** Epoch milliseconds, by cell. */
  readonly #since = new Map<string, number>()

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** @param look at files of the cell @returns undefined if they are unreadable */
  look<T>(cellId: string, look: () => T): T | undefined {
    try {
      const found = look()
      this.#since.delete(cellId)
      return found
    } catch (error) {
      return this.#note(cellId, error)
    }
  }

  /** {@link look} in the thread pool. */
  async lookAside<T>(cellId: string, look: () => Promise<T>): Promise<T | undefined> {
    try {
      const found = await look()
      this.#since.delete(cellId)
      return found
    } catch (error) {
      return this.#note(cellId, error)
    }
  }

  /** Undefined if the last look at the cell succeeded. */
  state(cellId: string): QuarantineState | undefined {
    const since = this.#since.get(cellId)
    return since === undefined ? undefined : { reason: 'io_error', since }
  }

  #note(cellId: string, err: unknown): undefined {
    if (!isUnreadable(err)) throw err
    if (this.#since.has(cellId)) return
    this.#since.set(cellId, this.#clock.now())
    this.#log.error({ cellId, err }, 'the files of a cell cannot be read; the others are served')
  }
}
