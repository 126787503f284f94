import { setImmediate } from '../../base/clock.ts'
import { Budget } from '../../base/fairness/budget.ts'
import type { OperationPermit } from '../../service/cell-service.ts'
import { shuttingDown } from '../core/problem.ts'
import type { ChangeEvents } from '../routes/change-events.ts'
import type { StreamLimits } from './stream-limits.ts'

const RETRY_AFTER_MS = 5_000
/** Of streams whose keys are looked up in one turn of the event loop. */
const CHECKS_A_TURN = 32

/** The streams of changes that clients read. Each ends as soon as its reader may no longer read it. */
export class OpenStreams {
  readonly #budget: Budget
  readonly #permits = new Map<ChangeEvents, OperationPermit | undefined>()
  #unchecked: ChangeEvents[] = []

  constructor({ total, perAccount }: StreamLimits, shutdown: AbortSignal | undefined) {
    this.#budget = new Budget({
      settings: { total: 'streams.total', perAccount: 'streams.perAccount' },
      unit: 'streams of changes',
      total,
      perAccount,
      retryAfterMs: RETRY_AFTER_MS,
    })
    shutdown?.addEventListener('abort', () => {
      for (const stream of this.#permits.keys()) stream.end(shuttingDown())
    })
  }

  /** Counts a stream, which has yet to be opened. @returns call it when that has ended @throws `rate_limited`, `busy` */
  take(accountId: string): () => void {
    this.#budget.take(accountId, 1)
    let isTaken = true
    return () => {
      if (isTaken) this.#budget.release(accountId, 1)
      isTaken = false
    }
  }

  add(stream: ChangeEvents, permit: OperationPermit | undefined): void {
    this.#permits.set(stream, permit)
  }

  delete(stream: ChangeEvents): void {
    this.#permits.delete(stream)
  }

  /** After keys or accounts have changed. */
  readonly check = (): void => {
    if (this.#permits.size === 0) return
    const isRunning = this.#unchecked.length > 0
    this.#unchecked = [...this.#permits.keys()]
    if (!isRunning) this.#checkSome()
  }

  #checkSome(): void {
    setImmediate(() => {
      for (const stream of this.#unchecked.splice(0, CHECKS_A_TURN)) {
        try {
          this.#permits.get(stream)?.check()
        } catch (error) {
          stream.end(error)
        }
      }
      if (this.#unchecked.length > 0) this.#checkSome()
    })
  }
}
