import type { BackupProgressEvent, BackupResult } from '../../backup/versions/backup-types.ts'
import type { Clock } from '../../base/clock.ts'
import { Budget } from '../../base/fairness/budget.ts'
import { TokenBuckets } from '../../base/fairness/token-buckets.ts'
import { overLimit, TRY_LATER } from '../../base/options/over-limit.ts'
import type { Quotas } from '../../catalog/account-quotas.ts'
import { type HttpRequest, whileConnected } from '../core/http-message.ts'

const MIB = 1_048_576
/** All accounts together may have so many times one account's share of backups under way. */
const SHARES = 4
const RETRY_MS = 1_000
/** Seconds of bytes that an account may back up at once after a pause. */
const BURST_SECONDS = 60

/** Of one backup, restore, export or import: its first MiB is charged when it begins. */
export interface FileCharge {
  /** Charges all of its bytes. Call it once. */
  move(bytes: number): void
  /** Ends it. */
  release(): void
}

/**
 * Charges accounts for the backups and restores that they request, for exports and imports, and for reads of their backups. Scheduled
 * backups, and whatever the store's owner asks for, are free.
 */
export class BackupCharges {
  readonly #running: Budget | undefined
  readonly #reads: Budget | undefined
  readonly #mib: TokenBuckets | undefined
  readonly #mibPerSecond: number

  constructor({ backupsAtOnce, backupReadsAtOnce, backupMibPerSecond = 0 }: Quotas, clock: Clock) {
    this.#running = budgetOf('backupsAtOnce', backupsAtOnce, 'backups under way')
    const reads = 'plans of restores and lists of backups under way'
    this.#reads = budgetOf('backupReadsAtOnce', backupReadsAtOnce, reads)
    this.#mibPerSecond = backupMibPerSecond
    if (backupMibPerSecond === 0) return
    const rate = { perSecond: backupMibPerSecond, burst: backupMibPerSecond * BURST_SECONDS }
    this.#mib = new TokenBuckets(rate, clock)
  }

  /**
   * Runs a backup, and charges one MiB before it and the rest after it: of one that fails, what it had moved.
   *
   * @param cellBytes size of the cell: what a base reads
   * @param backup has to tell how far it is
   * @throws as {@link begin}
   */
  async run(
    accountId: string,
    cellBytes: () => Promise<number>,
    backup: (onProgress: (event: BackupProgressEvent) => void) => Promise<BackupResult>,
  ): Promise<BackupResult> {
    const charge = this.begin(accountId)
    let moved = 0
    try {
      const wholeBytes = this.#mib === undefined ? 0 : await cellBytes()
      const result = await backup(({ bytes }) => {
        moved = Math.max(moved, bytes)
      })
      moved = result.baseVersion === null ? wholeBytes : result.sizeBytes
      return result
    } finally {
      charge.move(moved)
      charge.release()
    }
  }

  /**
   * Begins to move a cell as a whole: a backup, an export or an import.
   *
   * @throws `rate_limited` if the account has used up its share, `busy` if all accounts have
   */
  begin(accountId: string): FileCharge {
    this.#running?.take(accountId, 1)
    let isTaken = true
    const release = () => {
      if (isTaken) this.#running?.release(accountId, 1)
      isTaken = false
    }
    try {
      if (this.#mib !== undefined) this.#chargeFirst(accountId, this.#mib)
    } catch (error) {
      release()
      throw error
    }
    return { move: this.#move(accountId), release }
  }

  /**
   * Begins what reads the object store: a restore, of which many of an account may wait for their turn, or the search for a
   * cell that the catalog does not have. It takes no place.
   *
   * @throws `rate_limited` if the account has used up its share
   */
  beginRead(accountId: string): Pick<FileCharge, 'move'> {
    if (this.#mib !== undefined) this.#chargeFirst(accountId, this.#mib)
    return { move: this.#move(accountId) }
  }

  /**
   * Plans of restores and pages of backups. One of them may read thousands of objects, so an account has a few under way, and they
   * end with their clients.
   *
   * @param accountId undefined: the store's owner, who has no bound
   * @throws `rate_limited` if the account has its share under way, `busy` if all accounts have theirs
   */
  async read<T>(
    accountId: string | undefined,
    request: HttpRequest,
    read: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (accountId !== undefined) this.#reads?.take(accountId, 1)
    try {
      return await whileConnected(request, read)
    } finally {
      // What was cancelled has ended by now.
      if (accountId !== undefined) this.#reads?.release(accountId, 1)
    }
  }

  #move(accountId: string): FileCharge['move'] {
    return (bytes) => {
      if (bytes > MIB) this.#mib?.take(accountId, Math.ceil(bytes / MIB) - 1)
    }
  }

  #chargeFirst(accountId: string, mib: TokenBuckets): void {
    const retryAfterMs = mib.waitMs(accountId)
    if (retryAfterMs > 0) {
      const usage = mib.taken(accountId)
      const facts = {
        setting: 'quotas.backupMibPerSecond',
        limit: this.#mibPerSecond,
        usage,
        retryAfterMs,
      }
      const has = `The account has just backed up, restored or moved ${usage} MiB, and ${BURST_SECONDS} seconds' worth is the most at once`
      throw overLimit('rate_limited', has, facts, TRY_LATER)
    }
    mib.take(accountId)
  }
}

/** @param perAccount undefined: no bound */
function budgetOf(
  setting: 'backupsAtOnce' | 'backupReadsAtOnce',
  perAccount: number | undefined,
  unit: string,
): Budget | undefined {
  if (perAccount === undefined) return undefined
  return new Budget({
    settings: { total: `four times quotas.${setting}`, perAccount: `quotas.${setting}` },
    unit,
    total: perAccount * SHARES,
    perAccount,
    retryAfterMs: RETRY_MS,
  })
}
