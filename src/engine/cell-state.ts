import type { Limits } from '../base/options/limits.ts'
import { CellError } from '../errors.ts'
import { toCellError } from './sqlite-errors.ts'

export interface FailureHooks {
  /** Once, at the first sign that the disk has failed or the file is damaged: nothing uses the file from here on. */
  quarantined?(reason: CellError): void
  /** Told of errors that no caller hears of: after a commit, at a close, and when the cell is quarantined. */
  failed?(error: unknown): void
}

/**
 * Whether an open cell can be used, and what callers are told if not:
 *
 *     usable ⇄ its transaction has ended under the caller, or is a hold's, of which nothing runs now
 *       │ ↘
 *       │   quarantined: the disk failed, or the file is damaged
 *       ↓ ↙
 *     closed
 */
export class CellState {
  /** False once closed or quarantined, beside a hold, and after a transaction ended under the caller: the one check on the hot path. */
  usable = true
  readonly #context: { path: string; limits: Limits }
  readonly #hooks: FailureHooks
  #open = true
  #isTransactionLost = false
  #isHeld = false
  #quarantined: CellError | undefined

  constructor(context: { path: string; limits: Limits }, hooks: FailureHooks) {
    this.#context = context
    this.#hooks = hooks
  }

  get open(): boolean {
    return this.#open
  }

  /** Why nothing uses the file any more: its damage must not be made worse. */
  get quarantined(): CellError | undefined {
    return this.#quarantined
  }

  /** @throws `store_closed`, `cell_quarantined`; `sql_error` inside a transaction that a statement has ended; `busy` beside a hold */
  assertUsable(): void {
    if (this.usable) return
    this.assertOpen()
    throw this.#isTransactionLost ? transactionEnded() : heldByTransaction()
  }

  /** @throws `store_closed`, `cell_quarantined` */
  assertOpen(): void {
    this.assertNotQuarantined()
    if (!this.#open) throw new CellError('store_closed', 'The cell was closed.')
  }

  /** @throws `cell_quarantined` */
  assertNotQuarantined(): void {
    if (this.#quarantined !== undefined) throw this.#quarantined
  }

  /** Whether a statement has ended the transaction that the caller is still in. */
  get isTransactionLost(): boolean {
    return this.#isTransactionLost
  }

  setTransactionLost(isLost: boolean): void {
    if (isLost === this.#isTransactionLost) return
    this.#isTransactionLost = isLost
    this.#update()
  }

  /** The open transaction is a hold's, of which nothing runs now: nobody may use the connection. */
  setHeld(isHeld: boolean): void {
    this.#isHeld = isHeld
    this.#update()
  }

  /** What callers are told of an error; one that means a failed disk or a damaged file ends all use of the cell. */
  failure(error: unknown): CellError {
    const failure = toCellError(error, this.#context)
    if (failure.code === 'cell_quarantined') this.quarantine(failure)
    return failure
  }

  /** @returns the reason that all callers get from here on: the first one stays */
  quarantine(reason: CellError): CellError {
    if (this.#quarantined !== undefined) return this.#quarantined
    this.#quarantined = reason
    this.#update()
    this.#hooks.quarantined?.(reason)
    this.#hooks.failed?.(reason)
    return reason
  }

  /** For an error that no caller hears of. */
  report(error: unknown): void {
    // The hook has heard of a quarantine already.
    if (error !== this.#quarantined) this.#hooks.failed?.(error)
  }

  close(): void {
    this.#open = false
    this.#update()
  }

  #update(): void {
    const isTaken = this.#isTransactionLost || this.#isHeld
    this.usable = this.#open && !isTaken && this.#quarantined === undefined
  }
}

export function transactionEnded(): CellError {
  return new CellError(
    'sql_error',
    'A statement ended the whole transaction (OR ROLLBACK, RAISE(ROLLBACK), or a full disk); nothing of it remains.',
  )
}

/** For a change, by anybody but the hold. */
export function heldByTransaction(): CellError {
  return new CellError(
    'busy',
    'A transaction that was begun with cell.hold() is open in the cell, so nothing else can change it now. Use cell.commit(), which waits for its end, or try again.',
  )
}
