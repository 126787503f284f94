import { Budget } from '../../base/fairness/budget.ts'
import type { Quotas } from '../../catalog/account-quotas.ts'
import type { HttpRequest } from '../core/http-message.ts'
import { whileConnected } from '../core/http-message.ts'

/** All accounts together may have so many times one account's share under way. */
const SHARES = 4
const RETRY_MS = 1_000

/**
 * Plans of restores and pages of backups. One of them may read thousands of objects, so an account has a few under way, and they
 * end with their clients.
 */
export class BackupReads {
  readonly #running: Budget | undefined

  constructor({ backupReadsAtOnce }: Quotas) {
    if (backupReadsAtOnce === undefined) return
    this.#running = new Budget({
      settings: { total: 'four times quotas.backupReadsAtOnce', perAccount: 'quotas.backupReadsAtOnce' },
      unit: 'plans of restores and lists of backups under way',
      total: backupReadsAtOnce * SHARES,
      perAccount: backupReadsAtOnce,
      retryAfterMs: RETRY_MS,
    })
  }

  /**
   * @param accountId undefined: the store's owner, who has no bound
   * @throws `rate_limited` if the account has its share under way, `busy` if all accounts have theirs
   */
  async run<T>(
    accountId: string | undefined,
    request: HttpRequest,
    read: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (accountId !== undefined) this.#running?.take(accountId, 1)
    try {
      return await whileConnected(request, read)
    } finally {
      // What was cancelled has ended by now.
      if (accountId !== undefined) this.#running?.release(accountId, 1)
    }
  }
}
