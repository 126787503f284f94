import { DEFAULT_JOB_LIMITS, type JobQueueLimits } from '../../backup/archiver/job-queue.ts'
import { DEFAULT_LEASE_MS, LEASE_MS_MAX } from '../../backup/fence/epoch-holder.ts'
import type { ShippingSettings } from '../../backup/shipping/shipper.ts'
import { parsePlan } from '../../backup/versions/retention/retention-plan.ts'
import type { Clock } from '../../base/clock.ts'
import { systemClock } from '../../base/clock.ts'
import { type Log, silentLog } from '../../base/log.ts'
import { openCellsFor } from '../../base/machine/descriptor-limit.ts'
import { DEFAULT_LIMITS, type Limits } from '../../base/options/limits.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import type { Quotas } from '../../catalog/account-quotas.ts'
import type { CellDatabaseSettings, Durability, SqlPolicy } from '../../engine/cell-settings.ts'
import { OwnerFunctions } from '../../engine/owner-functions.ts'
import { CellError, isCellError } from '../../errors.ts'
import { DEFAULT_WATCH_SETTINGS, type WatchSettings } from '../watch/change-hub.ts'
import { checkStoreOptions } from './option-checks.ts'
import type { BackupSettings, StoreOptions } from './store-options.ts'

/** {@link StoreOptions} with every default filled in. */
export interface StoreSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  quotas: Quotas
  /** An interval that is undefined is off. */
  backups: BackupSettings & {
    snapshotEveryMs?: number | undefined
    incrementalEveryMs?: number | undefined
    drillEveryMs?: number | undefined
    maxLagMs?: number | undefined
    historyMs: number
    logBytesMax: number
    concurrency: number
    restoreConcurrency: number
    recoverInBackground: boolean
    recoveryConcurrency: number
    deadlineMs: number
    remoteWaitMs: number
  }
  watch: WatchSettings
  openCellsMax: number
  pageCacheBytes: number
  checkpointBytes: number
  commitLogBytes: number
  objectStoreWaitMs: number
  leaseMs: number
  takeOver: boolean
  adopt: boolean
  moveObjectStore: boolean
  /** Undefined if the owner adds nothing to SQL. @internal */
  ownerFunctions: OwnerFunctions | undefined
  clock: Clock
  /** From 0 up to 1. */
  random: () => number
  log: Log
}

const MIB = 1_048_576
export const DEFAULT_PAGE_CACHE_BYTES = MIB
export const DEFAULT_CHECKPOINT_BYTES = 4 * MIB
export const DEFAULT_COMMIT_LOG_BYTES = 64 * MIB
export const DEFAULT_BACKUPS_AT_ONCE = 4
export const DEFAULT_RESTORES_AT_ONCE = 4
/** The backup of a small cell takes little memory, and waits for answers most of its time. */
const SMALL_BACKUPS_PER_SLOT = 4
const HOUR_MS = 3_600_000
export const DEFAULT_SNAPSHOT_EVERY_MS = 24 * HOUR_MS
export const DEFAULT_INCREMENTAL_EVERY_MS = HOUR_MS / 4
export const DEFAULT_DRILL_EVERY_MS = 7 * 24 * HOUR_MS
export const DEFAULT_REMOTE_WAIT_MS = 10_000
export const DEFAULT_MAX_LAG_MS = 10_000
export const DEFAULT_HISTORY_MS = 7 * 24 * HOUR_MS
export const DEFAULT_LOG_BYTES = 1_024 * MIB
const MAX_LAG_MS_MIN = 1_000
const MAX_LAG_MS_MAX = HOUR_MS
/** The most parameters that this build of SQLite can bind. */
const PARAMS_MAX = 32_766

/** @throws `invalid_setting` with the setting's name */
export function resolveSettings(options: StoreOptions): StoreSettings {
  checkStoreOptions(options)
  const settings: StoreSettings = {
    durability: options.durability ?? 'full',
    sqlPolicy: options.sqlPolicy ?? 'trusted',
    limits: { ...DEFAULT_LIMITS, ...definedOnly(options.limits ?? {}) },
    quotas: { ...options.quotas },
    backups: resolveBackups(options.backups ?? {}),
    watch: { ...DEFAULT_WATCH_SETTINGS, ...definedOnly(options.watch ?? {}) },
    openCellsMax: options.openCellsMax ?? openCellsFor(),
    pageCacheBytes: options.pageCacheBytes ?? DEFAULT_PAGE_CACHE_BYTES,
    checkpointBytes: options.checkpointBytes ?? DEFAULT_CHECKPOINT_BYTES,
    commitLogBytes: options.commitLogBytes ?? DEFAULT_COMMIT_LOG_BYTES,
    objectStoreWaitMs: options.objectStoreWaitMs ?? 60_000,
    leaseMs: options.leaseMs ?? DEFAULT_LEASE_MS,
    takeOver: options.takeOver ?? false,
    adopt: options.adopt ?? false,
    moveObjectStore: options.moveObjectStore ?? false,
    ownerFunctions: OwnerFunctions.of(options),
    clock: options.clock ?? systemClock,
    random: options.random ?? systemClock.random,
    log: options.log ?? silentLog,
  }
  check(settings)
  checkCanBeRemote(settings.durability, settings, { hasObjectStore: options.objectStore !== undefined })
  return settings
}

/** @throws `invalid_setting`, or the other code, where no change of the durability `remote` would ever be acknowledged */
export function checkCanBeRemote(
  durability: Durability,
  { backups }: Pick<StoreSettings, 'backups'>,
  {
    hasObjectStore,
    code = 'invalid_setting',
  }: { hasObjectStore: boolean; code?: 'invalid_request' | 'invalid_setting' },
): void {
  if (durability !== 'remote' || (hasObjectStore && backups.maxLagMs !== undefined)) return
  throw new CellError(
    code,
    'durability: remote acknowledges a change once it is shipped. So it needs an object store, and backups.maxLagMs (--max-lag) must not be off.',
    { field: 'durability' },
  )
}

function check({ limits, backups: { maxLagMs, keep, keepTenant }, leaseMs }: StoreSettings): void {
  checkPlan('backups.keep', keep)
  checkPlan('backups.keepTenant', keepTenant)
  if (leaseMs > LEASE_MS_MAX) {
    throw new CellError('invalid_setting', `leaseMs must be at most ${LEASE_MS_MAX}, an hour.`, {
      field: 'leaseMs',
      limit: LEASE_MS_MAX,
    })
  }
  if (maxLagMs !== undefined && (maxLagMs < MAX_LAG_MS_MIN || maxLagMs > MAX_LAG_MS_MAX)) {
    throw new CellError(
      'invalid_setting',
      `backups.maxLagMs must be from ${MAX_LAG_MS_MIN} to ${MAX_LAG_MS_MAX}, an hour, or null, not ${maxLagMs}.`,
      { field: 'backups.maxLagMs' },
    )
  }
  if (limits.paramsMax > PARAMS_MAX) {
    throw new CellError(
      'invalid_setting',
      `limits.paramsMax must be at most ${PARAMS_MAX}, SQLite's own limit.`,
      { field: 'limits.paramsMax', limit: PARAMS_MAX },
    )
  }
}

function resolveBackups({
  snapshotEveryMs,
  incrementalEveryMs,
  drillEveryMs,
  maxLagMs,
  ...others
}: BackupSettings): StoreSettings['backups'] {
  const restoreConcurrency = others.restoreConcurrency ?? DEFAULT_RESTORES_AT_ONCE
  return {
    ...others,
    snapshotEveryMs: everyOf(snapshotEveryMs, DEFAULT_SNAPSHOT_EVERY_MS),
    incrementalEveryMs: everyOf(incrementalEveryMs, DEFAULT_INCREMENTAL_EVERY_MS),
    drillEveryMs: everyOf(drillEveryMs, DEFAULT_DRILL_EVERY_MS),
    maxLagMs: everyOf(maxLagMs, DEFAULT_MAX_LAG_MS),
    historyMs: others.historyMs ?? DEFAULT_HISTORY_MS,
    logBytesMax: others.logBytesMax ?? DEFAULT_LOG_BYTES,
    concurrency: others.concurrency ?? DEFAULT_BACKUPS_AT_ONCE,
    restoreConcurrency,
    recoverInBackground: others.recoverInBackground ?? true,
    // One restore is left to the requests that wait for their cells.
    recoveryConcurrency: others.recoveryConcurrency ?? Math.max(1, restoreConcurrency - 1),
    deadlineMs: others.deadlineMs ?? DEFAULT_JOB_LIMITS.runMs,
    remoteWaitMs: others.remoteWaitMs ?? DEFAULT_REMOTE_WAIT_MS,
  }
}

/** Null turns it off. */
function everyOf(given: number | null | undefined, byDefault: number): number | undefined {
  return given === null ? undefined : (given ?? byDefault)
}

function checkPlan(name: string, plan: string | undefined): void {
  try {
    if (plan !== undefined) parsePlan(plan)
  } catch (error) {
    if (!isCellError(error)) throw error
    throw new CellError('invalid_setting', `${name}: ${error.message}`, { field: name })
  }
}

/** The bounds of a store's backups and restores. */
export function jobQueueLimits({ backups }: StoreSettings): JobQueueLimits {
  const heavyAtOnce = { backup: backups.concurrency, restore: backups.restoreConcurrency, verify: 1 }
  const atOnce = { ...heavyAtOnce, backup: backups.concurrency * SMALL_BACKUPS_PER_SLOT }
  return { ...DEFAULT_JOB_LIMITS, atOnce, heavyAtOnce, runMs: backups.deadlineMs }
}

/** @returns undefined if what cells commit is not shipped */
export function shippingSettings({
  backups,
}: StoreSettings): (ShippingSettings & { historyMs: number }) | undefined {
  const { maxLagMs, logBytesMax, historyMs } = backups
  return maxLagMs === undefined ? undefined : { lagMs: maxLagMs, bytesMax: logBytesMax, historyMs }
}

/** @param durability overrides the store's unless null */
export function databaseSettings(
  settings: StoreSettings,
  durability: Durability | null,
): CellDatabaseSettings {
  const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = settings
  return { durability: durability ?? settings.durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
}
