import type { Clock, Timer } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'
import type { Transactions } from '../commits/transactions.ts'
import type { WalEnd } from '../wal/wal-end.ts'

/** How long a hold may be open. */
export interface HoldBounds {
  clock: Clock
  /** Milliseconds from its BEGIN. */
  timeoutMs: number
  /** Milliseconds without a use, once somebody waits for the cell; undefined: as long as it is open. */
  idleMs?: number | undefined
  /** It only reads: everything as it was at its BEGIN. Nobody waits for it. */
  readOnly?: boolean | undefined
}

/** The connection of a hold, in the transaction. */
export interface HoldConnection {
  transactions: Transactions
  /** As in {@link Hold}. */
  before: WalEnd | undefined
  /** Why it must end, after something has run in it: undefined if it goes on. */
  fault(): CellError | undefined
  /** Nobody else may use the connection, or the hold is about to. */
  setHeld(isHeld: boolean): void
  /** What the owner of a hold is told of an error in its COMMIT. */
  translate(error: unknown): unknown
  /** The transaction is over. */
  ended(): void
}

/**
 * A transaction that outlives a turn of the event loop. It has the cell's writing connection, or with `readOnly` one of its own.
 *
 *     open ── commit() ──────────────────────────────────▶ committed
 *       │──── rollback() ────────────────────────────────▶ rolled back
 *       └──── end(), its time, a statement that ends it ──▶ rolled back
 *
 * Whatever ends it, each later use throws {@link ended}: never is anything committed on its own.
 */
export class Hold {
  /** Resolves when it has ended, in whatever way. */
  readonly over: Promise<void>
  /** Where the WAL ended at its BEGIN: shows whether it was committed. Undefined if it only reads. */
  readonly before: WalEnd | undefined
  readonly #bounds: HoldBounds
  readonly #connection: HoldConnection
  readonly #resolve: () => void
  readonly #deadline: number
  #usedAt: number
  #isWaitedFor = false
  #timer: Timer | undefined
  #ended: CellError | undefined
  /** Something of it runs at this moment. */
  #isRunning = false
  /** It ends once that is over. */
  #endsWith: CellError | undefined

  constructor(bounds: HoldBounds, connection: HoldConnection) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.over = promise
    this.#resolve = resolve
    this.#bounds = bounds
    this.#connection = connection
    this.before = connection.before
    this.#usedAt = bounds.clock.monotonic()
    this.#deadline = this.#usedAt + bounds.timeoutMs
    connection.setHeld(true)
    this.#setTimer()
  }

  /** What each use throws from here on; undefined while it is open. */
  get ended(): CellError | undefined {
    return this.#ended
  }

  get isRunning(): boolean {
    return this.#isRunning
  }

  /** @throws {@link ended} */
  assertOpen(): void {
    if (!this.#isRunning && this.#ended === undefined) this.#endIfLate()
    if (this.#ended !== undefined) throw this.#ended
  }

  /** Runs a part of the transaction. @throws {@link ended}; what the part throws */
  run<T>(part: () => T): T {
    this.assertOpen()
    if (this.#isRunning) return part()
    this.#isRunning = true
    this.#connection.setHeld(false)
    try {
      return part()
    } finally {
      this.#isRunning = false
      this.#usedAt = this.#bounds.clock.monotonic()
      this.#connection.setHeld(true)
      const end = this.#endsWith ?? this.#connection.fault()
      if (end !== undefined) this.end(end)
    }
  }

  savepoint(name: string): void {
    this.#translated(() => this.#connection.transactions.setSavepoint(name))
  }

  /** @throws `sql_error` if there is no such savepoint */
  releaseSavepoint(name: string): void {
    this.#translated(() => this.#connection.transactions.releaseSavepoint(name))
  }

  /** @throws `sql_error` if there is no such savepoint */
  rollbackTo(name: string): void {
    this.#translated(() => this.#connection.transactions.rollbackTo(name))
  }

  /** It is on disk when this returns. @throws what keeps it from being committed: then it is rolled back */
  commit(): void {
    this.#assertAlone()
    this.#connection.setHeld(false)
    try {
      this.#connection.transactions.commitAndLeave()
    } catch (error) {
      this.#over(isOver('rolled back'))
      throw this.#connection.translate(error)
    }
    this.#over(isOver('committed'))
  }

  /** Does nothing if it has ended. @throws `invalid_request` inside of a transaction in it */
  rollback(): void {
    if (this.#ended !== undefined) return
    if (this.#isRunning) throw endsInside()
    this.#rollBack(isOver('rolled back'))
  }

  /** Rolls back, if it is open. @param reason what each later use throws */
  end(reason: CellError): void {
    if (this.#ended !== undefined) return
    if (this.#isRunning) this.#endsWith = reason
    else this.#rollBack(reason)
  }

  /** From here on it ends after `idleMs` without a use. */
  noteWaiter(): void {
    if (this.#isWaitedFor) return
    this.#isWaitedFor = true
    this.#setTimer()
  }

  #translated(run: () => void): void {
    try {
      this.run(run)
    } catch (error) {
      throw this.#connection.translate(error)
    }
  }

  #assertAlone(): void {
    this.assertOpen()
    if (this.#isRunning) throw endsInside()
  }

  #rollBack(reason: CellError): void {
    this.#connection.setHeld(false)
    try {
      this.#connection.transactions.rollbackAndLeave()
    } catch {
      // Of a connection that is unusable. What was not committed is rolled back with its close.
    }
    this.#over(reason)
  }

  #over(ended: CellError): void {
    this.#ended = ended
    this.#timer?.cancel()
    this.#connection.ended()
    this.#resolve()
  }

  #setTimer(): void {
    const { clock, idleMs } = this.#bounds
    const idleAt = this.#isWaitedFor && idleMs !== undefined ? this.#usedAt + idleMs : this.#deadline
    this.#timer?.cancel()
    const dueMs = Math.min(idleAt, this.#deadline) - clock.monotonic()
    this.#timer = clock.setTimer(() => this.#expire(), dueMs)
  }

  #expire(): void {
    this.#endIfLate()
    if (this.#ended === undefined) this.#setTimer()
  }

  #endIfLate(): void {
    const { clock, idleMs, timeoutMs } = this.#bounds
    const now = clock.monotonic()
    if (now >= this.#deadline)
      this.end(timedOut(timeoutMs, 'it was open for', 'timeoutMs, over Hrana holds.timeoutMs'))
    else if (this.#isWaitedFor && idleMs !== undefined && now >= this.#usedAt + idleMs)
      this.end(timedOut(idleMs, 'others waited for the cell, and nothing came for', 'holds.idleMs'))
  }
}

/** @param why what took so long */
function timedOut(limit: number, why: string, setting: string): CellError {
  return new CellError(
    'transaction_timeout',
    `The transaction was rolled back: ${why} ${limit} ms (${setting}). Nothing of it remains. Begin again.`,
    { limit },
  )
}

/** @param why how it came to its end */
export function transactionLost(why: string): CellError {
  return new CellError(
    'transaction_lost',
    `The transaction was rolled back: ${why}. Nothing of it remains. Begin again.`,
  )
}

/** It wrote too much for the cell's log. */
export function transactionTooLarge(limit: number): CellError {
  return new CellError(
    'transaction_too_large',
    `The transaction wrote more than ${limit} bytes into the cell's log (limits.walBytesMax) and was rolled back. Change fewer rows at a time.`,
    { limit },
  )
}

function endsInside(): CellError {
  return new CellError('invalid_request', 'The transaction cannot end inside of tx.transaction().')
}

function isOver(how: 'committed' | 'rolled back'): CellError {
  return new CellError('invalid_request', `The transaction is over: it was ${how}.`)
}
