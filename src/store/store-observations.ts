import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { ObjectStoreCalls } from '../backup/object-store/object-store-calls.ts'
import { ObservedObjectStore } from '../backup/object-store/observed-object-store.ts'
import { RecentFailures } from '../base/recent-failures.ts'
import { CellActivity } from './cell-activity.ts'
import type { StoreSettings } from './settings.ts'
import { StoreLog } from './store-log.ts'

/** What a store's owning process notes about its work, for its log, its metrics and its status. */
export class StoreObservations {
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly failures: RecentFailures
  readonly activity: CellActivity
  /** The store's settings, with a log that also keeps the newest failures. */
  readonly settings: StoreSettings
  /** Undefined without an object store, as is the next one. */
  readonly objectStore: ObjectStore | undefined
  readonly objectStoreCalls: ObjectStoreCalls | undefined

  /** @param accountOf the account of a cell, if the catalog can say; it may throw */
  constructor(
    settings: StoreSettings,
    objectStore: ObjectStore | undefined,
    accountOf: (cellId: string) => string | null | undefined,
  ) {
    const { clock } = settings
    this.startedAt = clock.now()
    this.failures = new RecentFailures(clock)
    this.activity = new CellActivity(clock)
    const log = new StoreLog(settings.log, this.failures, (cellId) => {
      try {
        return accountOf(cellId)
      } catch {
        return undefined
      }
    })
    this.settings = { ...settings, log }
    if (objectStore === undefined) return
    const calls = new ObjectStoreCalls(objectStore.url, clock, log)
    this.objectStoreCalls = calls
    this.objectStore = new ObservedObjectStore(objectStore, (ended) => calls.note(ended))
  }
}
