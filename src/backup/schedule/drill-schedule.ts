import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { isCellError } from '../../errors.ts'
import type { BackupDestination } from '../archiver/backup-destination.ts'
import type { VerificationTable } from '../verify/verification-table.ts'
import type { VerifyOptions, VerifyResult } from '../verify/verify-types.ts'
import { listingOf } from '../versions/version-index.ts'

export interface DrillScheduleParts {
  /** Milliseconds in which each cell is drilled once. */
  everyMs: number
  destination: BackupDestination
  table: VerificationTable
  /** Asks for a new base of a cell whose backups are damaged. */
  renew(cellId: string): void
  clock: Clock
  /** From 0 up to 1. */
  random: () => number
  log: Log
}

/** Restores a version to prove it. */
export type Prove = (cellId: string, options: VerifyOptions) => Promise<VerifyResult>

/** How often cells with a first backup join the rotation. */
const PLAN_EVERY_MS = 3_600_000
/** Cells that join in one turn of the event loop. The others join the next time. */
const PLANNED_MAX = 5_000
/** Unchanged cells to pass over in one turn of the event loop. */
const PASSED_OVER_MAX = 200
/** After a drill that nobody could finish: this cell waits for longer, so that it does not hold up the others. */
const PAUSE_MS = 15 * 60_000
const RETRY_MS = 6 * 3_600_000
/** If the newest version is damaged, so many older ones are tried. */
const OLDER_MAX = 5

/**
 * Proves each cell's newest backup by a restore, one cell after the other, the one first whose proof is oldest. A cell whose
 * newest backup is proven already is passed over. Damage is loud, and leads to a new base.
 */
export class DrillSchedule {
  readonly #parts: DrillScheduleParts
  readonly #abort = new AbortController()
  #prove: Prove | undefined
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  /** By the monotonic clock. */
  #plannedAt = Number.NEGATIVE_INFINITY

  constructor(parts: DrillScheduleParts) {
    this.#parts = parts
  }

  start(prove: Prove): void {
    this.#prove = prove
    this.#look()
  }

  /** Cancels a running drill. Its cell is the first one after the next start. */
  async stop(): Promise<void> {
    this.#abort.abort()
    this.#timer?.cancel()
    await this.#running
  }

  /** Starts the next drill if it is due, and otherwise looks again later. */
  #look(): void {
    const { table, clock, everyMs } = this.#parts
    this.#plan()
    for (let i = 0; i < PASSED_OVER_MAX; i++) {
      const next = table.next()
      if (next === undefined) {
        this.#lookIn(PLAN_EVERY_MS)
        return
      }
      const now = clock.now()
      // A time in the future says that the clock was set back: nobody knows how long ago it was.
      const dueMs = next.drilledAt > now ? 0 : next.drilledAt + everyMs - now
      if (dueMs > 0) {
        this.#lookIn(dueMs)
        return
      }
      if (!this.#passOver(next.cellId, next.drilledAt, now)) {
        this.#running = this.#drill(next.cellId).then((waitMs) => {
          this.#running = undefined
          this.#lookIn(waitMs)
        })
        return
      }
    }
    this.#lookIn(0)
  }

  #lookIn(ms: number): void {
    if (this.#abort.signal.aborted) return
    this.#timer = this.#parts.clock.setTimer(() => this.#look(), Math.min(ms, this.#planEveryMs))
  }

  get #planEveryMs(): number {
    return Math.min(PLAN_EVERY_MS, this.#parts.everyMs)
  }

  /** New cells join with a time in the past, so that their first drills spread over the whole period. */
  #plan(): void {
    const { table, clock, everyMs, random } = this.#parts
    if (clock.monotonic() - this.#plannedAt < this.#planEveryMs) return
    this.#plannedAt = clock.monotonic()
    const now = clock.now()
    for (const cellId of table.unplanned(PLANNED_MAX)) {
      table.plan(cellId, now - Math.floor(random() * everyMs))
    }
  }

  /** Whether there is nothing to prove now: the cell's newest backup is proven, or it was proven by hand not long ago. */
  #passOver(cellId: string, drilledAt: number, now: number): boolean {
    const { table, destination, everyMs } = this.#parts
    const { retention, progress } = destination
    if (retention.lastStoredAt(cellId) === undefined) {
      table.remove(cellId)
      return true
    }
    const proof = retention.lastProven(cellId)
    // What was proven may have decayed since.
    if (proof === undefined || table.damage(cellId) !== undefined) return false
    const isRecent = proof.provenAt > drilledAt && proof.provenAt <= now && now - proof.provenAt < everyMs
    if (isRecent) table.noteDrill(cellId, proof.provenAt)
    const isUnchanged = progress.find(cellId).lastVersion === proof.version
    if (isUnchanged) table.noteDrill(cellId, now)
    return isRecent || isUnchanged
  }

  /** @returns the pause before the next one: drills that are all due at once after a stop do not follow without a break */
  async #drill(cellId: string): Promise<number> {
    const { table, clock, everyMs, log } = this.#parts
    const { signal } = this.#abort
    try {
      await this.#proveNewest(cellId)
      table.noteDrill(cellId, clock.now())
      return everyMs / (2 * table.count())
    } catch (err) {
      if (signal.aborted) return 0
      table.noteDrill(cellId, clock.now() - everyMs + Math.min(RETRY_MS, everyMs))
      if (isCellError(err, 'disk_full'))
        log.warn(
          { cellId, err },
          'a drill is skipped: the disk has no room for its restore; trying again later',
        )
      else log.warn({ cellId, err }, 'a backup could not be proven; trying again later')
      return Math.min(PAUSE_MS, everyMs)
    }
  }

  /** Proves the newest version that can be restored. Says which newer ones cannot. */
  async #proveNewest(cellId: string): Promise<void> {
    if (await this.#proves(cellId, undefined)) return
    const { index } = this.#parts.destination
    const { signal } = this.#abort
    this.#parts.renew(cellId)
    const listing = listingOf(await index.versions(cellId, { signal }))
    let tried = 0
    for (const version of listing.keys()) {
      // What rests on an object that was just found damaged is not tried.
      if ((await index.restorable(version, cellId, listing, { signal })) === undefined) continue
      if (tried++ === OLDER_MAX || (await this.#proves(cellId, version))) return
    }
  }

  async #proves(cellId: string, version: string | undefined): Promise<boolean> {
    const { log } = this.#parts
    try {
      await (this.#prove as Prove)(cellId, definedOnly({ version, signal: this.#abort.signal }))
      return true
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt')) throw error
      const { version: damaged, member } = error.details
      log.error(
        { cellId, version: damaged, member, err: error },
        'a backup is damaged and cannot be restored; the next backup of the cell is a new base',
      )
      return false
    }
  }
}
