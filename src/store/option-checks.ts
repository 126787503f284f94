import { checkNames, type Known } from '../base/known-names.ts'
import { DEFAULT_LIMITS } from '../base/limits.ts'
import { QUOTA_NAMES } from '../catalog/account-quotas.ts'
import { CellError } from '../errors.ts'
import type { BackupSettings, StoreOptions } from './store-options.ts'
import { DEFAULT_WATCH_SETTINGS } from './watch/watch-settings.ts'

const BACKUP_NAMES: Known<BackupSettings> = {
  snapshotEveryMs: true,
  incrementalEveryMs: true,
  keep: true,
  keepTenant: true,
  prune: true,
  drillEveryMs: true,
  maxLagMs: true,
  historyMs: true,
  logBytesMax: true,
  concurrency: true,
  restoreConcurrency: true,
  recoverInBackground: true,
  recoveryConcurrency: true,
  deadlineMs: true,
  remoteWaitMs: true,
}
const STORE_NAMES: Known<StoreOptions> = {
  objectStore: true,
  durability: true,
  sqlPolicy: true,
  limits: true,
  quotas: true,
  backups: true,
  watch: true,
  openCellsMax: true,
  pageCacheBytes: true,
  checkpointBytes: true,
  commitLogBytes: true,
  objectStoreWaitMs: true,
  leaseMs: true,
  takeOver: true,
  adopt: true,
  moveObjectStore: true,
  functions: true,
  extensions: true,
  tenantFunctions: true,
  clock: true,
  random: true,
  log: true,
}
const GROUPS = {
  limits: DEFAULT_LIMITS,
  quotas: QUOTA_NAMES,
  backups: BACKUP_NAMES,
  watch: DEFAULT_WATCH_SETTINGS,
} as const
const GROUPED = Object.entries(GROUPS).flatMap(([group, names]) =>
  Object.keys(names).map((name) => `${group}.${name}`),
)

/** @throws `invalid_setting` for an unknown option, or one that is no object store */
export function checkOptionNames(options: StoreOptions): void {
  const code = 'invalid_setting'
  checkNames(options, STORE_NAMES, { code, elsewhere: GROUPED })
  for (const [group, names] of Object.entries(GROUPS)) {
    const given = options[group as keyof typeof GROUPS]
    if (given !== undefined) checkNames(given, names, { code, at: `${group}.` })
  }
  checkObjectStore(options)
}

function checkObjectStore({ objectStore }: StoreOptions): void {
  const isStore = typeof objectStore === 'object' && typeof objectStore?.put === 'function'
  if (objectStore === undefined || typeof objectStore === 'string' || isStore) return
  throw new CellError('invalid_setting', 'objectStore must be a URL or an ObjectStore.', {
    field: 'objectStore',
  })
}

/** A schedule says that there should be backups. @throws `invalid_setting` if they have no place to go */
export function checkSchedule({ objectStore, backups = {} }: StoreOptions): void {
  if (objectStore !== undefined) return
  for (const name of ['snapshotEveryMs', 'incrementalEveryMs', 'drillEveryMs', 'maxLagMs'] as const) {
    if (backups[name] == null) continue
    const message = `backups.${name} needs an object store: set objectStore, or leave the schedule out.`
    throw new CellError('invalid_setting', message, { field: `backups.${name}` })
  }
}
