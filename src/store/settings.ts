import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import { systemClock } from '../base/clock.ts'
import { openCellsFor } from '../base/descriptor-limit.ts'
import { DEFAULT_LIMITS, type Limits } from '../base/limits.ts'
import { type Log, silentLog } from '../base/log.ts'
import type { CellDatabaseSettings, Durability, SqlPolicy } from '../engine/cell-settings.ts'
import { CellError } from '../errors.ts'

/** Automatic backups of cells; all off by default. The catalog is always backed up where there is an object store. */
export interface BackupSettings {
  /** A snapshot of every cell that changed, this long after the last. Milliseconds. */
  snapshotEveryMs?: number | undefined
  /** An incremental of every cell that changed, this long after its last backup. Milliseconds. */
  incrementalEveryMs?: number | undefined
  /** Restorable versions of a cell to keep; older ones are removed. All, if not set. */
  keep?: number | undefined
  /** Automatic backups that run at once; 2 by default. */
  concurrency?: number | undefined
}

/** What a store can be told. Plain data, save for the components at the end. */
export interface StoreOptions {
  /** Where backups go: `file:///path`, `s3://bucket/prefix?…`, or an {@link ObjectStore} of your own. None: no backups. */
  objectStore?: string | ObjectStore | undefined
  /** Default `full`: a commit is on disk when it is answered. */
  durability?: Durability | undefined
  /** For `cell.sql()`; default `trusted`. SQL that comes over HTTP is always held to the tenants' policy, unless told otherwise there. */
  sqlPolicy?: SqlPolicy | undefined
  limits?: Partial<Limits> | undefined
  backups?: BackupSettings | undefined
  /** Cells kept open at once; by default what the descriptor limit allows, at most 1,000. */
  openCellsMax?: number | undefined
  /** Memory for database pages that one open cell may keep, in bytes; 1 MiB by default. */
  pageCacheBytes?: number | undefined
  /** Length of a cell's write-ahead log at which it is moved into the database, in bytes; 4 MiB by default. */
  checkpointBytes?: number | undefined
  /** How long a store without a catalog waits for the object store before it gives up, in milliseconds; 60,000 by default. */
  objectStoreWaitMs?: number | undefined
  clock?: Clock | undefined
  /** From 0 up to 1, for spreading work in time. */
  random?: (() => number) | undefined
  log?: Log | undefined
}

/** {@link StoreOptions} with every default filled in. */
export interface StoreSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  backups: BackupSettings & { concurrency: number }
  openCellsMax: number
  pageCacheBytes: number
  checkpointBytes: number
  objectStoreWaitMs: number
  clock: Clock
  random: () => number
  log: Log
}

const MIB = 1_048_576
/** What this build of SQLite can bind. */
const PARAMS_MAX = 32_766

/** @throws `invalid_setting`, naming it */
export function resolveSettings(options: StoreOptions): StoreSettings {
  const settings: StoreSettings = {
    durability: options.durability ?? 'full',
    sqlPolicy: options.sqlPolicy ?? 'trusted',
    limits: { ...DEFAULT_LIMITS, ...definedOnly(options.limits ?? {}) },
    backups: { ...options.backups, concurrency: options.backups?.concurrency ?? 2 },
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

function check({ durability, sqlPolicy, limits, backups, ...rest }: StoreSettings): void {
  oneOf('durability', durability, ['full', 'relaxed'])
  oneOf('sqlPolicy', sqlPolicy, ['tenant', 'trusted'])
  const { openCellsMax, pageCacheBytes, checkpointBytes, objectStoreWaitMs } = rest
  const { snapshotEveryMs, incrementalEveryMs, keep, concurrency } = backups
  const numbers = {
    openCellsMax,
    pageCacheBytes,
    checkpointBytes,
    objectStoreWaitMs,
    ...prefixed('limits', { ...limits }),
    ...prefixed('backups', { snapshotEveryMs, incrementalEveryMs, keep, concurrency }),
  }
  for (const [name, value] of Object.entries(numbers)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) {
      throw new CellError('invalid_setting', `${name} is a whole number above 0, not ${String(value)}.`, {
        field: name,
      })
    }
  }
  if (limits.paramsMax > PARAMS_MAX) {
    throw new CellError(
      'invalid_setting',
      `limits.paramsMax is at most ${PARAMS_MAX}, which is SQLite's own.`,
      {
        field: 'limits.paramsMax',
        limit: PARAMS_MAX,
      },
    )
  }
}

function oneOf(name: string, value: string, choices: readonly string[]): void {
  if (choices.includes(value)) return
  throw new CellError('invalid_setting', `${name} is one of ${choices.join(', ')}, not ${value}.`, {
    field: name,
  })
}

function prefixed(
  prefix: string,
  values: Record<string, number | undefined>,
): Record<string, number | undefined> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]))
}

/** An option given as undefined is one not given. */
function definedOnly<T extends object>(values: T): T {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T
}

/** @param durability in place of the store's */
export function databaseSettings(
  settings: StoreSettings,
  durability: Durability | null,
): CellDatabaseSettings {
  const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = settings
  return { durability: durability ?? settings.durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
}
