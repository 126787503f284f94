import { overLimit, TRY_LATER } from './over-limit.ts'

export interface BudgetSettings {
  /** The settings behind `total` and `perAccount`, for error messages. */
  settings: { total: string; perAccount: string }
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
    const { settings, unit, total, perAccount, retryAfterMs } = this.#settings
    const own = this.usedBy(account)
    if (own + amount > perAccount) {
      const facts = { setting: settings.perAccount, limit: perAccount, usage: own, retryAfterMs }
      throw overLimit('rate_limited', `The account has ${own} ${unit}`, facts, TRY_LATER)
    }
    if (this.#used + amount > total) {
      const facts = { setting: settings.total, limit: total, usage: own, retryAfterMs }
      throw overLimit('busy', `The node has no room for more ${unit}`, facts, TRY_LATER)
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
