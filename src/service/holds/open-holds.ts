import { LruCache } from '../../base/lru-cache.ts'
import { overLimit, TRY_LATER } from '../../base/options/over-limit.ts'
import { FairShares } from '../../engine/commits/fair-shares.ts'
import { transactionLost } from '../../engine/holds/hold.ts'
import type { WalEnd } from '../../engine/wal/wal-end.ts'
import type { CellError } from '../../errors.ts'
import type { Cell } from '../../store/open/cell.ts'
import { DEFAULT_HOLD_LIMITS, type HoldLimits, type OperationHold } from '../operations.ts'
import { CellSession, type SessionHold } from './cell-session.ts'

/** Holds of which it is remembered how they ended. */
const ENDED_MAX = 10_000

interface OpenHold extends SessionHold {
  cellId: string
  accountId: string
}

/** Who runs an operation in a session. */
export interface SessionCaller {
  /** Empty for a cell without an account. */
  accountId: string
  /** As in `SessionParts`. */
  committing?: ((before: WalEnd | undefined) => void) | undefined
  committed?: (() => void) | undefined
  /** It may leave a transaction open that it begins. True by default. */
  mayStay?: boolean | undefined
}

/** The holds of the cells of this process that stay open between operations, by their ids. */
export class OpenHolds {
  readonly #limits: HoldLimits
  readonly #open = new Map<string, OpenHold>()
  readonly #ended = new LruCache<CellError>(2 * ENDED_MAX)
  readonly #shares: FairShares

  constructor(limits: HoldLimits = DEFAULT_HOLD_LIMITS) {
    this.#limits = limits
    this.#shares = new FairShares(limits.total)
  }

  /**
   * Runs an operation that goes on in a hold, or that may leave one open.
   *
   * @throws `transaction_timeout`, `transaction_lost` if the hold has ended meanwhile: the operation has not run; `busy` if it
   * may leave one open and the account has too many: it has not run either, so that nothing is committed twice; what the operation throws
   */
  run<T>(
    cell: Cell,
    { id, isOpen }: OperationHold,
    { accountId, committing = () => {}, committed = () => {}, mayStay = true }: SessionCaller,
    operation: (session: CellSession) => T,
  ): T {
    const known = this.#open.get(id)
    if (isOpen || known !== undefined) this.#assertOpen(id, known, cell.id)
    else if (mayStay) this.#assertRoom(accountId)
    const { timeoutMs, idleMs } = this.#limits
    const begin = (readOnly: boolean) => cell.beginHold({ timeoutMs, idleMs, readOnly })
    const session = new CellSession(cell, { begin, committing, committed }, known)
    let isDone = false
    try {
      const result = operation(session)
      isDone = true
      if (session.open !== undefined && session.open !== known)
        this.#keep(id, { ...session.open, cellId: cell.id, accountId })
      return result
    } finally {
      // Nobody has heard of one that it has begun.
      if (!isDone && session.open !== known) session.open?.hold.rollback()
      if (known?.hold.ended !== undefined) this.#forget(id, known)
    }
  }

  #assertOpen(id: string, known: OpenHold | undefined, cellId: string): void {
    if (known?.cellId === cellId) known.hold.assertOpen()
    else throw this.#ended.get(id) ?? transactionLost('the process that had it has ended')
  }

  #assertRoom(accountId: string): void {
    const count = this.#shares.amountOf(accountId)
    if (count >= this.#limits.perAccount) throw tooMany(count, this.#limits)
  }

  #keep(id: string, open: OpenHold): void {
    const { accountId, hold } = open
    this.#open.set(id, open)
    this.#shares.set(id, accountId, 1)
    void hold.over.then(() => this.#forget(id, open))
    if (this.#shares.isExceeded) this.#makeRoom()
  }

  /** Ends the oldest one of the account that has most of them. */
  #makeRoom(): void {
    const { heaviest } = this.#shares
    for (const [id, open] of this.#open) {
      if (open.accountId !== heaviest) continue
      open.hold.end(transactionLost('too many transactions were open on this node (holds.total)'))
      this.#forget(id, open)
      return
    }
  }

  #forget(id: string, open: OpenHold): void {
    if (this.#open.get(id) !== open) return
    this.#open.delete(id)
    this.#shares.delete(id)
    this.#ended.set(id, open.hold.ended as CellError)
  }
}

function tooMany(usage: number, { perAccount: limit, idleMs }: HoldLimits): CellError {
  const has = `${usage} transactions of this account are open`
  return overLimit(
    'busy',
    has,
    { setting: 'holds.perAccount', limit, usage, retryAfterMs: idleMs },
    TRY_LATER,
  )
}
