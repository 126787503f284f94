import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { ObjectStoreCalls, ObservedObjectStore } from '../backup/object-store/object-store-calls.ts'
import type { Clock } from '../base/clock.ts'
import type { Log, LogInFront } from '../base/log.ts'
import { RecentFailures } from '../base/recent-failures.ts'
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

interface BusyCell {
  cellId: string
  /** Operations in the last one to two minutes. */
  operations: number
}

const WINDOW_MS = 60_000
/** Cells that one window counts. A window that is full ends early: of so many cells, none was busy for long. */
const CELLS_MAX = 10_000

/** How many operations cells have had lately: enough to tell the busiest, in bounded memory. */
export class CellActivity {
  readonly #clock: Clock
  #counts = new Map<string, number>()
  #before = new Map<string, number>()
  #startedAt: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedAt = clock.monotonic()
  }

  count(cellId: string): void {
    this.#follow()
    const known = this.#counts.get(cellId)
    if (known === undefined && this.#counts.size >= CELLS_MAX) this.#turn()
    this.#counts.set(cellId, (known ?? 0) + 1)
  }

  /** The cells with the most operations, the busiest first. */
  busiest(most: number): BusyCell[] {
    this.#follow()
    const cells = new Map(this.#before)
    for (const [cellId, count] of this.#counts) cells.set(cellId, (cells.get(cellId) ?? 0) + count)
    return [...cells]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(([cellId, operations]) => ({ cellId, operations }))
  }

  #follow(): void {
    const age = this.#clock.monotonic() - this.#startedAt
    if (age < WINDOW_MS) return
    this.#turn()
    // Nothing was counted for so long that the window before is over too.
    if (age >= 2 * WINDOW_MS) this.#before = new Map()
  }

  #turn(): void {
    this.#before = this.#counts
    this.#counts = new Map()
    this.#startedAt = this.#clock.monotonic()
  }
}
