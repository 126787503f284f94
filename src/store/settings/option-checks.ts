import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { PLAN_DEFAULT } from '../../backup/versions/retention/retention-plan.ts'
import { CLOCK } from '../../base/clock.ts'
import { LOG } from '../../base/log.ts'
import { LIMITS } from '../../base/options/limits.ts'
import {
  COUNT,
  callback,
  checkOptions,
  either,
  FLAG,
  group,
  having,
  maybe,
  orNull,
  type Shape,
  some,
  TEXT,
} from '../../base/options/option-shapes.ts'
import { QUOTAS } from '../../catalog/account-quotas.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
import { DURABILITY, SQL_POLICY } from '../../engine/cell-settings.ts'
import { OWNER_FUNCTIONS } from '../../engine/owner-functions.ts'
import { CellError } from '../../errors.ts'
import { WATCH_SETTINGS } from '../watch/change-hub.ts'
import type { BackupSettings, StoreOptions } from './store-options.ts'

const RETENTION_PLAN = { ...TEXT, what: `a plan such as ${PLAN_DEFAULT}` }
const BACKUPS: Shape<BackupSettings> = {
  snapshotEveryMs: maybe(orNull(COUNT)),
  incrementalEveryMs: maybe(orNull(COUNT)),
  keep: maybe(RETENTION_PLAN),
  keepTenant: maybe(RETENTION_PLAN),
  prune: maybe(FLAG),
  drillEveryMs: maybe(orNull(COUNT)),
  maxLagMs: maybe(orNull(COUNT)),
  historyMs: maybe(COUNT),
  logBytesMax: maybe(COUNT),
  concurrency: maybe(COUNT),
  restoreConcurrency: maybe(COUNT),
  recoverInBackground: maybe(FLAG),
  recoveryConcurrency: maybe(COUNT),
  deadlineMs: maybe(COUNT),
  remoteWaitMs: maybe(COUNT),
}
const OBJECT_STORE = either(
  TEXT,
  having<ObjectStore>('put', 'get', 'head', 'list', 'delete', 'sweepUploads', 'close'),
)
export const STORE: Shape<StoreOptions> = {
  ...OWNER_FUNCTIONS,
  objectStore: maybe({ ...OBJECT_STORE, what: 'a URL or an ObjectStore' }),
  durability: maybe(DURABILITY),
  sqlPolicy: maybe(SQL_POLICY),
  limits: maybe(some(LIMITS)),
  quotas: maybe(group(QUOTAS)),
  backups: maybe(group(BACKUPS)),
  watch: maybe(some(WATCH_SETTINGS)),
  openCellsMax: maybe(COUNT),
  pageCacheBytes: maybe(COUNT),
  checkpointBytes: maybe(COUNT),
  commitLogBytes: maybe(COUNT),
  objectStoreWaitMs: maybe(COUNT),
  leaseMs: maybe(COUNT),
  takeOver: maybe(FLAG),
  adopt: maybe(FLAG),
  moveObjectStore: maybe(FLAG),
  ownership: maybe(having<Ownership>('isHere', 'ownerOf', 'newCellId', 'assertMayAnswer')),
  clock: maybe(CLOCK),
  random: maybe(callback()),
  log: maybe(LOG),
}

/** @throws `invalid_setting` */
export function checkStoreOptions(options: StoreOptions): void {
  checkOptions(options, STORE, { code: 'invalid_setting' })
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
