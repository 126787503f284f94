import type { Clock } from '../base/clock.ts'
import { TokenBuckets } from '../base/token-buckets.ts'
import { CellError } from '../errors.ts'

/** What each account may have; undefined is no bound. */
export interface Quotas {
  /** Cells that are not deleted. */
  cellsMax?: number | undefined
  /** Active API keys. As many revoked ones are remembered. */
  apiKeysMax?: number | undefined
  /** Bytes of the database files of its cells. Over it, no file grows, and no cell is created: over HTTP only. */
  bytesMax?: number | undefined
  /** Backups that it requested over HTTP and that are kept. */
  backupsMax?: number | undefined
  /** Cells and API keys that it may create per second all the time; ten times as many at once after a pause. */
  creationsPerSecond?: number | undefined
  /** The same for all accounts together. Half of it is only for accounts that have created little. */
  nodeCreationsPerSecond?: number | undefined
  /** Backups that it requested over HTTP and that are under way; all accounts together may have four times as many. */
  backupsAtOnce?: number | undefined
  /** MiB per second of backups that it requests over HTTP; a minute's worth at once after a pause. */
  backupMibPerSecond?: number | undefined
}

/** The quotas of `cellstore serve`, unless its flags say otherwise. The library has none. */
export const DEFAULT_QUOTAS = {
  cellsMax: 100_000,
  apiKeysMax: 1_000,
  backupsMax: 100_000,
  creationsPerSecond: 200,
  nodeCreationsPerSecond: 400,
  backupsAtOnce: 4,
  backupMibPerSecond: 32,
} as const satisfies Quotas

const BURST_SECONDS = 10

/** Bounds what one account puts into the catalog, which all accounts share. Deletions and revocations are always free. */
export class AccountQuotas {
  readonly limits: Readonly<Quotas>
  readonly #creations: TokenBuckets | undefined

  constructor(limits: Readonly<Quotas>, clock: Clock) {
    this.limits = limits
    const perSecond = limits.creationsPerSecond
    if (perSecond === undefined) return
    this.#creations = new TokenBuckets({ perSecond, burst: perSecond * BURST_SECONDS }, clock)
  }

  /** @throws `quota_exceeded` if the account has its quota of cells */
  checkCells(count: () => number): void {
    check('cellsMax', 'cells', this.limits.cellsMax, count)
  }

  /** @throws `quota_exceeded` if the account has its quota of API keys */
  checkApiKeys(count: () => number): void {
    check('apiKeysMax', 'API keys', this.limits.apiKeysMax, count)
  }

  /** Charges the account for a creation. @throws `rate_limited` */
  chargeCreation(accountId: string): void {
    const retryAfterMs = this.#creations?.waitMs(accountId) ?? 0
    if (retryAfterMs > 0) {
      const limit = this.limits.creationsPerSecond as number
      throw new CellError(
        'rate_limited',
        `The account may create ${limit} cells and API keys a second (quotas.creationsPerSecond), and has used up its burst of ${limit * BURST_SECONDS}. Try again later.`,
        { limit, retryAfterMs },
      )
    }
    this.#creations?.take(accountId)
  }
}

function check(name: keyof Quotas, what: string, limit: number | undefined, count: () => number): void {
  if (limit === undefined) return
  const used = count()
  if (used < limit) return
  throw new CellError(
    'quota_exceeded',
    `The account has ${used} of ${limit} ${what} (quotas.${name}). Remove some, or raise the quota.`,
    { limit },
  )
}
