import type { CellError } from '../../errors.ts'
import { overLimit, TRY_LATER } from '../options/over-limit.ts'

export interface BudgetSettings {
  /** The settings behind `total` and `perAccount`, for error messages. */
  settings: { total: string; perAccount: string }
  /** What is counted, for error messages: `bytes of request bodies`. */
  unit: string
  /** How much the whole node may use at the same time. */
  total: number
  /** How much one account may use while no other one uses any. */
  perAccount: number
  /** When a refused caller should try again, in milliseconds. */
  retryAfterMs: number
}

/**
 * Something of which a node has only so much at a time, such as memory for request bodies. Every use is charged before it
 * begins, and released when it ends.
 *
 * An account may use a fixed fraction, `perAccount / total`, of what the *other* accounts leave. So each account that uses
 * its share leaves (1 − fraction) of what it found, and however many there are, the next one finds something. As uses
 * end, n busy accounts meet at the same amount.
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

  /** How much of it is in use, and how much may be. */
  get use(): { used: number; total: number } {
    return { used: this.#used, total: this.#settings.total }
  }

  usedBy(account: string): number {
    return this.#usedBy.get(account) ?? 0
  }

  /** How much the account may use while the others use what they use now. */
  shareOf(account: string): number {
    const { total, perAccount } = this.#settings
    const left = total - (this.#used - this.usedBy(account))
    // Rounded up: of a few units, each account gets one while there is one.
    return Math.ceil((left * perAccount) / total)
  }

  /**
   * Charges a use. A refused use is not charged.
   *
   * @throws `rate_limited` if it is more than one account may ever use; `busy` if it is more than the others leave it now
   */
  take(account: string, amount: number): void {
    const own = this.usedBy(account)
    const share = this.shareOf(account)
    if (own + amount > share) throw this.#refusal(own, amount, share)
    this.#used += amount
    this.#usedBy.set(account, own + amount)
  }

  release(account: string, amount: number): void {
    const left = this.usedBy(account) - amount
    this.#used -= amount
    if (left > 0) this.#usedBy.set(account, left)
    else this.#usedBy.delete(account)
  }

  #refusal(usage: number, amount: number, share: number): CellError {
    const { settings, unit, perAccount, retryAfterMs } = this.#settings
    const had = `The account has ${usage} ${unit}`
    if (usage + amount > perAccount) {
      const facts = { setting: settings.perAccount, limit: perAccount, usage, retryAfterMs }
      return overLimit('rate_limited', had, facts, TRY_LATER)
    }
    const facts = { setting: settings.total, limit: share, usage, retryAfterMs }
    return overLimit('busy', `${had}, and others use the rest of the node's`, facts, TRY_LATER)
  }
}
