import type { BaseReason } from '../backup/changes/base-reason.ts'
import { ChangedCells } from '../backup/changes/progress-table.ts'
import type { Recover } from '../backup/recovery/background-recovery.ts'
import { DrillSchedule, type Prove } from '../backup/schedule/drill-schedule.ts'
import { BackupSchedule, type RunBackup } from '../backup/schedule/schedule.ts'
import { turnOfTheLoop } from '../base/clock.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { type CollectCell, ExpirySweeper } from '../kv/expiry/expiry-sweeper.ts'
import type { StoreCore } from './store-core.ts'

/** After a crash of the machine, every cell is searched for expired entries within this time. */
const INSPECT_WITHIN_MS = 60 * 60 * 1_000
/** Cells to inspect in one turn of the event loop. */
const INSPECTED_PER_TURN = 64

/**
 * Scheduled backups that wait or run, for each that the archiver runs at a time. More than one, so that large cells which
 * wait for their turn hold up no small one.
 */
const SCHEDULED_PER_SLOT = 8

/**
 * What a cell commits is shipped once it has a backup to begin with. That waits for a part of the lag: the first commits often
 * come together, and what the backup holds need not be shipped.
 */
const FIRST_BACKUP_SHARE = 0.25

/** Does the work that {@link Upkeep} plans, in the process that has the cells open. */
export interface UpkeepWork {
  backup: RunBackup
  /** Proves a backup when nothing else is to be done. */
  prove: Prove
  collect: CollectCell
  /** Restores a cell whose data is lost when nothing else is to be done. */
  recover: Recover
}

/** The background work on cells: scheduled backups, drills, the recovery of lost cells, and the collection of expired entries. */
export class Upkeep {
  readonly #core: StoreCore
  readonly #sweeper: ExpirySweeper
  readonly #schedule: BackupSchedule | undefined
  readonly #drills: DrillSchedule | undefined
  #stopped = false

  constructor(core: StoreCore) {
    this.#core = core
    const { destination, hints, registry } = core
    const { clock, random, log, backups } = core.settings
    this.#sweeper = new ExpirySweeper(hints, clock, log)
    if (destination === undefined) return
    const { residence } = core
    const recordOf = (id: string) => (residence.mayBegin(id) ? registry.find(id) : undefined)
    const changed = new ChangedCells(destination.progress, recordOf)
    const concurrency = backups.concurrency * SCHEDULED_PER_SLOT
    const { maxLagMs } = backups
    const historyWithinMs = maxLagMs && maxLagMs * FIRST_BACKUP_SHARE
    const settings = { ...backups, concurrency, historyWithinMs }
    const schedule = new BackupSchedule(settings, changed, clock, random, log)
    this.#schedule = schedule
    destination.trackers.changed.listen((id) => schedule.changed(id))
    destination.moved.listen(() => schedule.reschedule())
    this.#drills = this.#newDrills()
  }

  start({ backup, prove, collect, recover }: UpkeepWork): void {
    const { residence } = this.#core
    this.#sweeper.start((id, signal) => residence.during(id, () => collect(id, signal)))
    this.#schedule?.start((id, kind, options, need) =>
      backup(id, kind, { ...options, origin: 'schedule' }, need),
    )
    this.#drills?.start(async (id, options) => {
      if (id !== this.#core.id) residence.assertHere(id)
      return await prove(id, options)
    })
    this.#core.recovery?.start(async (id, signal) => {
      residence.assertHere(id)
      await recover(id, signal)
    })
    if (!this.#core.state.complete) void this.#inspectAll()
  }

  /** An expiry was set. Never throws. */
  expiryNoted(id: string, expiresAt: number): void {
    this.#sweeper.note(id, expiresAt)
  }

  /** Another process has noted an expiry in the local state. */
  expiryChanged(): void {
    this.#sweeper.reschedule()
  }

  /** Another process has seen the first change of a cell since its newest backup. */
  cellChanged(id: string): void {
    this.#schedule?.changed(id)
  }

  /** Cells that were about to leave stay. */
  reschedule(): void {
    this.#schedule?.reschedule()
    this.#sweeper.reschedule()
  }

  /** A cell was restored: its content is another now, with other expiries. A deleted one exists only now, after its change. */
  cellRestored(id: string): void {
    this.#sweeper.sweepSoon(id)
    this.#schedule?.changed(id)
  }

  /** A cell was made that has content: no backup has it. */
  cellMade(id: string): void {
    this.#sweeper.sweepSoon(id)
    this.#schedule?.changed(id)
  }

  /** As in `CellPort`, also if the cell has not changed since its newest version. It counts as changed, also after a restart. */
  async needsBase(id: string, reason: BaseReason): Promise<void> {
    const { destination, registry, files } = this.#core
    if (registry.find(id)?.deletedAt !== null || !files.exists(id)) throw cellNotFound()
    this.#core.residence.assertHere(id)
    // A change alone may be due, too: asked for after the version, it makes no other.
    const needed = this.#schedule?.needsBase(id, reason)
    const mark = async () => destination?.trackers.use(id, (tracker) => tracker.setChanged())
    await Promise.all([needed, mark()])
  }

  /** Ends running work; nothing starts afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sweeper.stop()
    await this.#core.recovery?.stop()
    await this.#drills?.stop()
    await this.#schedule?.stop()
  }

  #newDrills(): DrillSchedule | undefined {
    const { destination, catalogBackup, verifications: table, settings } = this.#core
    const { clock, random, log, backups } = settings
    const { drillEveryMs: everyMs } = backups
    if (destination === undefined || table === undefined || everyMs === undefined) return undefined
    const renew = (id: string) => {
      if (id === this.#core.id) catalogBackup?.setNothingStored()
      else this.needsBase(id, 'versions damaged').catch(() => {})
    }
    return new DrillSchedule({ everyMs, destination, table, renew, clock, random, log })
  }

  /** After a crash of the machine, rows of the local state may be missing. The cells' files show the changes. */
  async #inspectAll(): Promise<void> {
    const { registry, state, settings } = this.#core
    try {
      let areAllRead = true
      let cursor: string | undefined
      do {
        const page = registry.list({ cursor, limit: Math.min(INSPECTED_PER_TURN, registry.pageMax) })
        for (const { id } of page.cells) {
          if (this.#stopped) return
          const isRead = this.#core.unreadable.look(id, () => this.#inspect(id))
          if (isRead === undefined) areAllRead = false
        }
        cursor = page.nextCursor ?? undefined
        await turnOfTheLoop()
      } while (cursor !== undefined && !this.#stopped)
      if (this.#stopped) return
      // Otherwise the next start looks again.
      if (areAllRead) state.markComplete()
      this.#sweeper.reschedule()
    } catch (err) {
      settings.log.error({ err }, 'could not inspect all cells after a crash of the machine')
    }
  }

  #inspect(id: string): true {
    const { hints, destination, files, settings } = this.#core
    // A cell that is lost is searched once it is restored: the search would restore it.
    if (files.exists(id))
      hints.setIfAbsent(id, settings.clock.now() + Math.floor(settings.random() * INSPECT_WITHIN_MS))
    destination?.trackers.use(id, (tracker) => {
      if (tracker.differsFromFiles()) tracker.setChanged()
    })
    return true
  }
}
