import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { ObjectStoreCalls } from '../backup/object-store/object-store-calls.ts'
import { ObservedObjectStore } from '../backup/object-store/observed-object-store.ts'
import type { Log, LogInFront } from '../base/log.ts'
import { RecentFailures } from '../base/recent-failures.ts'
import { CellActivity } from './cells/cell-activity.ts'
import type { StoreSettings } from './settings/settings.ts'

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

/** A store's log: it says whose the cell of a line is, and keeps the newest failures. */
class StoreLog implements LogInFront {
  readonly behind: Log
  readonly #failures: RecentFailures
  readonly #accountOf: (cellId: string) => string | null | undefined

  /** @param accountOf the account of a cell; never throws */
  constructor(
    behind: Log,
    failures: RecentFailures,
    accountOf: (cellId: string) => string | null | undefined,
  ) {
    this.behind = behind
    this.#failures = failures
    this.#accountOf = accountOf
  }

  info(fields: object, message: string): void {
    this.behind.info(this.#withAccount(fields), message)
  }

  warn(fields: object, message: string): void {
    const known = this.#withAccount(fields)
    this.#failures.note('warn', known, message)
    this.behind.warn(known, message)
  }

  error(fields: object, message: string): void {
    const known = this.#withAccount(fields)
    this.#failures.note('error', known, message)
    this.behind.error(known, message)
  }

  #withAccount(fields: object): object {
    const { cellId, accountId } = fields as { cellId?: unknown; accountId?: unknown }
    if (typeof cellId !== 'string' || accountId !== undefined) return fields
    const known = this.#accountOf(cellId)
    return known == null ? fields : { accountId: known, ...fields }
  }
}
