import type { AccountQueue } from '../../base/fairness/account-queue.ts'
import { AccountRotation } from '../../base/fairness/account-rotation.ts'
import type { UnshippedLog } from '../changes/log/cell-log.ts'

/**
 * Who comes first in the next object: accounts take turns, and of each the cell comes first that has waited longest. Each
 * worker tells of its own cells, so that no order of theirs says that.
 */
export class ShippingOrder {
  readonly #accounts = new AccountRotation()
  /** By cell of the last round: the round since which it waits. */
  #since = new Map<string, number>()
  #rounds = 0

  /** Cells of which nothing was told are forgotten. */
  round(told: readonly UnshippedLog[]): AccountQueue<UnshippedLog> {
    this.#rounds++
    const before = this.#since
    const since = new Map(told.map(({ cellId }) => [cellId, before.get(cellId) ?? this.#rounds]))
    this.#since = since
    const sinceOf = ({ cellId }: UnshippedLog) => since.get(cellId) as number
    return this.#accounts.round(
      told.toSorted((a, b) => sinceOf(a) - sinceOf(b)),
      accountOf,
    )
  }

  /** An object has room for some of it. What is left of it waits anew. */
  hadTurn(log: UnshippedLog): void {
    this.#since.set(log.cellId, this.#rounds + 1)
    this.#accounts.hadTurn(accountOf(log))
  }
}

function accountOf({ accountId }: UnshippedLog): string {
  return accountId ?? ''
}
