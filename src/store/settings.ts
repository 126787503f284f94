import { DEFAULT_JOB_LIMITS, type JobQueueLimits } from '../backup/archiver/job-queue.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import { systemClock } from '../base/clock.ts'
import { openCellsFor } from '../base/descriptor-limit.ts'
import { DEFAULT_LIMITS, type Limits } from '../base/limits.ts'
import { type Log, silentLog } from '../base/log.ts'
import type { Quotas } from '../catalog/account-quotas.ts'
import type { CellDatabaseSettings, Durability, SqlPolicy } from '../engine/cell-settings.ts'
import { CellError } from '../errors.ts'

/** Automatic backups of cells; all off by default. The catalog is always backed up where there is an object store. */
export interface BackupSettings {
  /** Milliseconds after a cell's last snapshot until the next one, if the cell has changed. */
  snapshotEveryMs?: number | undefined
  /** Milliseconds after a cell's last backup until the next incremental, if the cell has changed. */
  incrementalEveryMs?: number | undefined
  /** Restorable versions of a cell to keep; older ones are removed. Default: all are kept. */
  keep?: number | undefined
  /** Backups that run at the same time; 4 by default. */
  concurrency?: number | undefined
  /** Restores that run at the same time; 4 by default. */
  restoreConcurrency?: number | undefined
}

/** Options of a store: plain data, except for the components at the end. */
export interface StoreOptions {
  /** Where backups go: `file:///path`, `s3://bucket/prefix?…`, or an {@link ObjectStore} of your own. Without one there are no backups. */
  objectStore?: string | ObjectStore | undefined
  /** Default `full`: a commit is on disk when its call returns or resolves. */
  durability?: Durability | undefined
  /** For `cell.sql()`; default `trusted`. SQL over HTTP follows the policy `tenant`, unless the handler's own option says otherwise. */
  sqlPolicy?: SqlPolicy | undefined
  /** Instead of {@link DEFAULT_LIMITS}. */
  limits?: Partial<Limits> | undefined
  /** What each account may have. Default in the library: no bounds. */
  quotas?: Quotas | undefined
  /** Automatic backups of cells; off by default. */
  backups?: BackupSettings | undefined
  /** Cells kept open at the same time; by default what the descriptor limit allows, at most 1,000. */
  openCellsMax?: number | undefined
  /** Bytes of database pages that one open cell may cache; 1 MiB by default. */
  pageCacheBytes?: number | undefined
  /** Bytes of a cell's write-ahead log at which it is checkpointed; 4 MiB by default. */
  checkpointBytes?: number | undefined
  /** Milliseconds that the start of a store without a catalog waits for the object store; 60,000 by default. */
  objectStoreWaitMs?: number | undefined
  /** Default: the system's. */
  clock?: Clock | undefined
  /** From 0 up to 1, to spread work over time. Default `Math.random`. */
  random?: (() => number) | undefined
  /** Default: nothing is logged. */
  log?: Log | undefined
}

/** {@link StoreOptions} with every default filled in. */
export interface StoreSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  quotas: Quotas
  backups: BackupSettings & { concurrency: number; restoreConcurrency: number }
  openCellsMax: number
  pageCacheBytes: number
  checkpointBytes: number
  objectStoreWaitMs: number
  clock: Clock
  random: () => number
  log: Log
}

const MIB = 1_048_576
export const BACKUPS_AT_ONCE = 4
export const RESTORES_AT_ONCE = 4
/** The most parameters that this build of SQLite can bind. */
const PARAMS_MAX = 32_766

/** @throws `invalid_setting` with the setting's name */
export function resolveSettings(options: StoreOptions): StoreSettings {
  const settings: StoreSettings = {
    durability: options.durability ?? 'full',
    sqlPolicy: options.sqlPolicy ?? 'trusted',
    limits: { ...DEFAULT_LIMITS, ...definedOnly(options.limits ?? {}) },
    quotas: { ...options.quotas },
    backups: {
      ...options.backups,
      concurrency: options.backups?.concurrency ?? BACKUPS_AT_ONCE,
      restoreConcurrency: options.backups?.restoreConcurrency ?? RESTORES_AT_ONCE,
    },
    openCellsMax: options.openCellsMax ?? openCellsFor(),
    pageCacheBytes: options.pageCacheBytes ?? MIB,
    checkpointBytes: options.checkpointBytes ?? 4 * MIB,
    objectStoreWaitMs: options.objectStoreWaitMs ?? 60_000,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemClock.random,
    log: options.log ?? silentLog,
  }
  check(settings)
  return settings
}

function check({ durability, sqlPolicy, limits, quotas, backups, ...rest }: StoreSettings): void {
  oneOf('durability', durability, ['full', 'relaxed'])
  oneOf('sqlPolicy', sqlPolicy, ['tenant', 'trusted'])
  const { openCellsMax, pageCacheBytes, checkpointBytes, objectStoreWaitMs } = rest
  const { snapshotEveryMs, incrementalEveryMs, keep, concurrency, restoreConcurrency } = backups
  const numbers = {
    openCellsMax,
    pageCacheBytes,
    checkpointBytes,
    objectStoreWaitMs,
    ...prefixed('limits', { ...limits }),
    ...prefixed('quotas', { ...quotas }),
    ...prefixed('backups', { snapshotEveryMs, incrementalEveryMs, keep, concurrency, restoreConcurrency }),
  }
  for (const [name, value] of Object.entries(numbers)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) {
      throw new CellError(
        'invalid_setting',
        `${name} must be a whole number above 0, not ${String(value)}.`,
        { field: name },
      )
    }
  }
  if (limits.paramsMax > PARAMS_MAX) {
    throw new CellError(
      'invalid_setting',
      `limits.paramsMax must be at most ${PARAMS_MAX}, SQLite's own limit.`,
      { field: 'limits.paramsMax', limit: PARAMS_MAX },
    )
  }
}

function oneOf(name: string, value: string, choices: readonly string[]): void {
  if (choices.includes(value)) return
  throw new CellError('invalid_setting', `${name} must be one of ${choices.join(', ')}, not ${value}.`, {
    field: name,
  })
}

function prefixed(
  prefix: string,
  values: Record<string, number | undefined>,
): Record<string, number | undefined> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]))
}

/** An option that is undefined counts as not given. */
function definedOnly<T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}

/** The bounds of a store's backups and restores. */
export function jobQueueLimits({ backups }: StoreSettings): JobQueueLimits {
  const atOnce = { backup: backups.concurrency, restore: backups.restoreConcurrency }
  return { ...DEFAULT_JOB_LIMITS, atOnce }
}

/** @param durability overrides the store's unless null */
export function databaseSettings(
  settings: StoreSettings,
  durability: Durability | null,
): CellDatabaseSettings {
  const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = settings
  return { durability: durability ?? settings.durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
}
