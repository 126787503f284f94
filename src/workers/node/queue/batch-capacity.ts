import type { QueuedOperation } from '../dispatch/queued-operation.ts'

/** Operations in one batch; and those of one cell, or of one account, in it, if others wait too. */
const BATCH_MAX = 256
const BATCH_SHARE = 64
/** A batch of this many bytes takes no further operation: to read them takes the worker some milliseconds. */
const BATCH_BYTES = 2_097_152

/** How much still fits into a batch. */
export class BatchCapacity {
  readonly #perCell: number
  readonly #perAccount: number
  readonly #timeFor: (accountId: string) => number
  readonly #shares = new Map<string, AccountShare>()
  #operations = 0
  #bytes = 0
  #isSealed = false

  /**
   * Whether several cells, and several accounts, share it.
   *
   * @param timeFor how many of an account's operations there is time for
   */
  constructor(hasCells: boolean, hasAccounts: boolean, timeFor: (accountId: string) => number) {
    this.#perCell = hasCells ? BATCH_SHARE : BATCH_MAX
    this.#perAccount = hasAccounts ? BATCH_SHARE : BATCH_MAX
    this.#timeFor = timeFor
  }

  get isFull(): boolean {
    return this.#isSealed || this.#operations === BATCH_MAX || this.#bytes >= BATCH_BYTES
  }

  /** What the account may still have, and has. */
  shareOf(accountId: string): AccountShare {
    let share = this.#shares.get(accountId)
    if (share === undefined) {
      share = { max: Math.min(this.#perAccount, this.#timeFor(accountId)), taken: 0 }
      this.#shares.set(accountId, share)
    }
    return share
  }

  /** @param share of the operation's account @param ofCell operations on the same cell that the batch already has */
  admit({ bytes, crashes }: QueuedOperation, share: AccountShare, ofCell: number): boolean {
    if (this.isFull || ofCell === this.#perCell || share.taken >= share.max) return false
    // This operation may have crashed a worker. It runs alone, so that a second crash shows the cause.
    if (crashes > 0 && this.#operations > 0) return false
    this.#isSealed = crashes > 0
    share.taken++
    this.#operations++
    this.#bytes += bytes
    return true
  }
}

/** Operations of one account in a batch. */
export interface AccountShare {
  readonly max: number
  taken: number
}
