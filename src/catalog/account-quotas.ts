import type { Clock } from '../base/clock.ts'
import { counted } from '../base/counted.ts'
import { TokenBuckets } from '../base/fairness/token-buckets.ts'
import { COUNT, maybe, type Shape } from '../base/options/option-shapes.ts'
import { overLimit, TRY_LATER } from '../base/options/over-limit.ts'
import type { CellError } from '../errors.ts'

/** What each account may have; undefined is no bound. */
export interface Quotas {
  /** Cells that are not deleted. */
  cellsMax?: number | undefined
  /** Active API keys. As many revoked ones are remembered. */
  apiKeysMax?: number | undefined
  /** Idempotency keys that are remembered for a day. Of more, the newest. */
  idempotencyKeysMax?: number | undefined
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
  /** Plans of restores and lists of backups that it asks for over HTTP, under way; all accounts together: four times as many. */
  backupReadsAtOnce?: number | undefined
  /** MiB per second of backups and restores that it requests over HTTP, exports and imports; a minute's worth at once after a pause. */
  backupMibPerSecond?: number | undefined
}

/** Quotas of one account in place of the store's; where one is undefined, the store's holds. */
export interface QuotaOverrides extends Pick<Quotas, 'cellsMax' | 'apiKeysMax' | 'bytesMax'> {
  /** Requests per second that it may make over HTTP all the time; as many at once after a pause. */
  requestsPerSecond?: number | undefined
}

export const QUOTA_OVERRIDES: Shape<QuotaOverrides> = {
  cellsMax: maybe(COUNT),
  apiKeysMax: maybe(COUNT),
  bytesMax: maybe(COUNT),
  requestsPerSecond: maybe(COUNT),
}

export const QUOTAS: Shape<Quotas> = {
  cellsMax: maybe(COUNT),
  apiKeysMax: maybe(COUNT),
  idempotencyKeysMax: maybe(COUNT),
  bytesMax: maybe(COUNT),
  backupsMax: maybe(COUNT),
  creationsPerSecond: maybe(COUNT),
  nodeCreationsPerSecond: maybe(COUNT),
  backupsAtOnce: maybe(COUNT),
  backupReadsAtOnce: maybe(COUNT),
  backupMibPerSecond: maybe(COUNT),
}

/** The quotas of `cellstore serve`, unless its flags say otherwise. The library has none. */
export const DEFAULT_QUOTAS = {
  cellsMax: 100_000,
  apiKeysMax: 1_000,
  idempotencyKeysMax: 10_000,
  backupsMax: 100_000,
  creationsPerSecond: 200,
  nodeCreationsPerSecond: 400,
  backupsAtOnce: 4,
  backupReadsAtOnce: 4,
  backupMibPerSecond: 32,
} as const satisfies Quotas

const BURST_SECONDS = 10
/** Of the node's burst, the part that is only for accounts that have most of their own. */
const QUIET_SHARE = 0.5
/** The one bucket of all accounts together. */
const NODE = ''

/** Bounds what one account puts into the catalog, which all accounts share. Deletions and revocations are always free. */
export class AccountQuotas {
  readonly #limits: Readonly<Quotas>
  readonly #overrides: (accountId: string) => QuotaOverrides | undefined
  readonly #ofAccounts: Creations | undefined
  readonly #ofNode: Creations | undefined

  /** @param overrides an account's own quotas, if it has any */
  constructor(
    limits: Readonly<Quotas>,
    clock: Clock,
    overrides: (accountId: string) => QuotaOverrides | undefined,
  ) {
    this.#limits = limits
    this.#overrides = overrides
    this.#ofAccounts = creations(limits.creationsPerSecond, clock)
    this.#ofNode = creations(limits.nodeCreationsPerSecond, clock)
  }

  /** What holds for an account; undefined is no bound. */
  of(accountId: string, name: 'cellsMax' | 'apiKeysMax' | 'bytesMax'): number | undefined {
    return this.#overrides(accountId)?.[name] ?? this.#limits[name]
  }

  /** @throws `quota_exceeded` if the account has its quota of cells */
  checkCells(accountId: string, count: () => number): void {
    check('cellsMax', 'cell', this.of(accountId, 'cellsMax'), count)
  }

  /** @throws `quota_exceeded` if the account has its quota of API keys */
  checkApiKeys(accountId: string, count: () => number): void {
    check('apiKeysMax', 'active API key', this.of(accountId, 'apiKeysMax'), count)
  }

  /**
   * Charges the account and the node for a creation.
   *
   * @throws `rate_limited` if the account has used up its share; `busy` if all accounts together have used up the node's, and
   * this one is not quiet
   */
  chargeCreation(accountId: string): void {
    const own = this.#ofAccounts
    const usage = own?.buckets.taken(accountId) ?? 0
    const has = `The account has just created ${usage} cells and API keys`
    const ownWaitMs = own?.buckets.waitMs(accountId) ?? 0
    if (own !== undefined && ownWaitMs > 0) {
      const facts = { setting: 'quotas.creationsPerSecond', limit: own.perSecond, usage }
      throw overLimit('rate_limited', has, { ...facts, retryAfterMs: ownWaitMs }, TRY_LATER)
    }
    const node = this.#ofNode
    const nodeWaitMs = node?.buckets.waitMs(NODE, this.#mustLeave(node, usage) + 1) ?? 0
    if (node !== undefined && nodeWaitMs > 0) {
      const facts = { setting: 'quotas.nodeCreationsPerSecond', limit: node.perSecond, usage }
      throw overLimit(
        'busy',
        `${has}, and the node has no room for more now`,
        { ...facts, retryAfterMs: nodeWaitMs },
        TRY_LATER,
      )
    }
    own?.buckets.take(accountId)
    node?.buckets.take(NODE)
  }

  /** What a creation must leave for others in the node's bucket. Without it, accounts that create much would take all. */
  #mustLeave(node: Creations, usage: number): number {
    const own = this.#ofAccounts
    if (own === undefined || usage <= own.burst * (1 - QUIET_SHARE)) return 0
    return node.burst * QUIET_SHARE
  }
}

interface Creations {
  perSecond: number
  burst: number
  buckets: TokenBuckets
}

function creations(perSecond: number | undefined, clock: Clock): Creations | undefined {
  if (perSecond === undefined) return undefined
  const burst = perSecond * BURST_SECONDS
  return { perSecond, burst, buckets: new TokenBuckets({ perSecond, burst }, clock) }
}

/** @param one of what is counted */
function check(name: keyof Quotas, one: string, limit: number | undefined, count: () => number): void {
  if (limit === undefined) return
  const usage = count()
  if (usage >= limit) throw quotaExceeded(name, `The account has ${counted(usage, one)}`, limit, usage)
}

/** @param has the first clause of the message: what the account has */
export function quotaExceeded(name: keyof Quotas, has: string, limit: number, usage: number): CellError {
  const facts = { setting: `quotas.${name}`, limit, usage }
  return overLimit('quota_exceeded', has, facts, 'Remove some, or ask the operator for a higher quota.')
}
