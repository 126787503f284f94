import { CellError } from '../errors.ts'

export interface BudgetSettings {
  /** The setting that bounds the budget, for error messages. */
  setting: string
  /** What is counted, for error messages: `bytes of request bodies`. */
  unit: string
  /** How much the whole node may use at the same time. */
  total: number
  /** How much one account may use at the same time. */
  perAccount: number
  /** When a refused caller should try again, in milliseconds. */
  retryAfterMs: number
}

/**
 * Something of which a node has only so much at a time, such as memory for request bodies. Every use is charged before it
 * begins, and released when it ends. One account cannot use more than its share, so no single one can use up the node's.
 */
export class Budget {
  readonly #settings: BudgetSettings
  readonly #usedBy = new Map<string, number>()
  #used = 0

  constructor(settings: BudgetSettings) {
    this.#settings = settings
  }

  get used(): number {
    return this.#used
  }

  usedBy(account: string): number {
    return this.#usedBy.get(account) ?? 0
  }

  /**
   * Charges a use. A refused use is not charged.
   *
   * @throws `rate_limited` if the account's share is used up; `busy` if the node's budget is
   */
  take(account: string, amount: number): void {
    const { setting, unit, total, perAccount, retryAfterMs } = this.#settings
    const own = this.usedBy(account)
    if (own + amount > perAccount) {
      const message = `The account already uses ${own} of ${perAccount} ${unit} (${setting}). Try again later.`
      throw new CellError('rate_limited', message, { limit: perAccount, retryAfterMs })
    }
    if (this.#used + amount > total) {
      const message = `The node has used up its ${total} ${unit} (${setting}). Try again later.`
      throw new CellError('busy', message, { limit: total, retryAfterMs })
    }
    this.#used += amount
    this.#usedBy.set(account, own + amount)
  }

  release(account: string, amount: number): void {
    const left = this.usedBy(account) - amount
    this.#used -= amount
    if (left > 0) this.#usedBy.set(account, left)
    else this.#usedBy.delete(account)
  }
}
