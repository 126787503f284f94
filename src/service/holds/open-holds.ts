import { LruCache } from '../../base/lru-cache.ts'
import { overLimit, TRY_LATER } from '../../base/options/over-limit.ts'
import { transactionLost } from '../../engine/holds/hold.ts'
import type { CellError } from '../../errors.ts'
import type { Cell } from '../../store/open/cell.ts'
import { DEFAULT_HOLD_LIMITS, type HoldLimits, type OperationHold } from '../operations.ts'
import { CellSession, type SessionHold } from './cell-session.ts'

/** Holds of which it is remembered how they ended. */
const ENDED_MAX = 10_000

interface OpenHold extends SessionHold {
  cellId: string
}

/** Who runs an operation in a session. */
export interface SessionCaller {
  /** Empty for a cell without an account. */
  accountId: string
  /** As in `SessionParts`. */
  committing?: (() => void) | undefined
}

/** The holds of the cells of this process that stay open between operations, by their ids. */
export class OpenHolds {
  readonly #limits: HoldLimits
  readonly #open = new Map<string, OpenHold>()
  readonly #ended = new LruCache<CellError>(2 * ENDED_MAX)
  readonly #ofAccount = new Map<string, number>()

  constructor(limits: HoldLimits = DEFAULT_HOLD_LIMITS) {
    this.#limits = limits
  }

  /**
   * Runs an operation that goes on in a hold, or that may leave one open.
   *
   * @throws `transaction_timeout`, `transaction_lost` if the hold has ended meanwhile: the operation has not run; `busy` if the account
   * has too many open, and this one is rolled back; what the operation throws
   */
  run<T>(
    cell: Cell,
    { id, isOpen }: OperationHold,
    { accountId, committing = () => {} }: SessionCaller,
    operation: (session: CellSession) => T,
  ): T {
    const known = this.#open.get(id)
    if (isOpen || known !== undefined) this.#assertOpen(id, known, cell.id)
    const { timeoutMs, idleMs } = this.#limits
    const begin = (readOnly: boolean) => cell.beginHold({ timeoutMs, idleMs, readOnly })
    const session = new CellSession(cell, { begin, committing }, known)
    let isDone = false
    try {
      const result = operation(session)
      isDone = true
      if (session.open !== undefined && session.open !== known)
        this.#keep(id, { ...session.open, cellId: cell.id }, accountId)
      return result
    } finally {
      // Nobody has heard of one that it has begun.
      if (!isDone && session.open !== known) session.open?.hold.rollback()
      if (known?.hold.ended !== undefined && this.#open.get(id) === known) this.#open.delete(id)
    }
  }

  #assertOpen(id: string, known: OpenHold | undefined, cellId: string): void {
    if (known?.cellId === cellId) known.hold.assertOpen()
    else throw this.#ended.get(id) ?? transactionLost('the process that had it has ended')
  }

  #keep(id: string, open: OpenHold, accountId: string): void {
    const count = this.#ofAccount.get(accountId) ?? 0
    if (count >= this.#limits.perAccount) {
      open.hold.rollback()
      throw tooMany(count, this.#limits)
    }
    this.#ofAccount.set(accountId, count + 1)
    this.#open.set(id, open)
    void open.hold.over.then(() => this.#forget(id, open, accountId))
  }

  #forget(id: string, open: OpenHold, accountId: string): void {
    if (this.#open.get(id) === open) this.#open.delete(id)
    this.#ended.set(id, open.hold.ended as CellError)
    const left = (this.#ofAccount.get(accountId) ?? 1) - 1
    if (left === 0) this.#ofAccount.delete(accountId)
    else this.#ofAccount.set(accountId, left)
  }
}

function tooMany(usage: number, { perAccount: limit, idleMs }: HoldLimits): CellError {
  const has = `${usage} transactions of this account are open`
  return overLimit('busy', has, { setting: 'the limit', limit, usage, retryAfterMs: idleMs }, TRY_LATER)
}
