import type { QueuedOperation } from './queued-operation.ts'

/** Operations in one batch; and those of one cell, or of one account, in it, if others wait too. */
const BATCH_MAX = 256
const BATCH_SHARE = 64
/** A batch of this many bytes takes no further operation. */
const BATCH_BYTES = 16_777_216

/** How much still fits into a batch. */
export class BatchCapacity {
  readonly #perCell: number
  readonly #perAccount: number
  readonly #timeFor: (accountId: string) => number
  readonly #ofAccounts = new Map<string, number>()
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

  /** @param ofCell operations on the same cell that the batch already has */
  admit({ accountId, bytes, crashes }: QueuedOperation, ofCell: number): boolean {
    if (this.isFull || ofCell === this.#perCell) return false
    const ofAccount = this.#ofAccounts.get(accountId) ?? 0
    if (ofAccount === this.#perAccount || ofAccount >= this.#timeFor(accountId)) return false
    // This operation may have crashed a worker. It runs alone, so that a second crash shows the cause.
    if (crashes > 0 && this.#operations > 0) return false
    this.#isSealed = crashes > 0
    this.#ofAccounts.set(accountId, ofAccount + 1)
    this.#operations++
    this.#bytes += bytes
    return true
  }
}
