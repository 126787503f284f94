import { backOffMs } from '../../base/async/back-off.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import { AccountQueue } from '../../base/fairness/account-queue.ts'
import type { Log } from '../../base/log.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import type { Need } from '../archiver/job.ts'
import type { BackupProgress } from '../changes/backup-progress.ts'
import type { BaseReason } from '../changes/base-reason.ts'
import type { ChangedCells } from '../changes/progress-table.ts'
import type { BackupKind, BackupResult, MakeBackupOptions } from '../versions/backup-types.ts'
import { OutageLog } from './outage-log.ts'

export interface ScheduleSettings {
  /** Milliseconds; undefined turns it off. */
  snapshotEveryMs?: number | undefined
  incrementalEveryMs?: number | undefined
  /** Milliseconds until a changed cell gets the backup with which its history begins; undefined: nothing is shipped. */
  historyWithinMs?: number | undefined
  /** Scheduled backups that run at the same time. */
  concurrency: number
}

/** Makes one backup of a cell, in the process that has the cell open. */
export type RunBackup = (
  cellId: string,
  kind: BackupKind,
  options: MakeBackupOptions,
  need: Need,
) => Promise<BackupResult>

/** A cell that needs a version, and those who wait for it. */
interface NeededBase extends PromiseWithResolvers<void> {
  reason: BaseReason
}

/** The reason that comes first. */
const URGENT: BaseReason = 'no chain'
/** Each backup waits up to this share of the interval longer, so that cells that changed together spread out. */
const JITTER = 0.1
/** The first wait after a failure. Each further failure of a cell doubles it. */
const BACK_OFF = { minMs: 30_000, maxMs: 15 * 60_000 }
/** Due times follow the wall clock, timers do not: after this long they are compared again. */
const TIMER_MS_MAX = 600_000

/**
 * Backs up every changed cell after each interval: a snapshot or an incremental. An unchanged cell costs nothing. Accounts whose
 * cells are due take turns, and one account has at most half of the backups that run: each may take as long as the account
 * makes it take. Cells that need a new base come first, as after a restore in place; they and the others take turns. It is also
 * the queue of all versions with which a history begins: those that follow from a cell's progress, and those of `needsBase`.
 */
export class BackupSchedule {
  readonly #settings: ScheduleSettings
  readonly #cells: Pick<ChangedCells, keyof ChangedCells>
  readonly #clock: Clock
  readonly #random: () => number
  readonly #failed: OutageLog
  /** Cells that are not due yet. */
  readonly #due = new DueList()
  /** Cells that are due. */
  readonly #waiting = new AccountQueue<string>()
  /** Those of them that come first. */
  readonly #urgent = new AccountQueue<string>()
  /** The last turn was for one of these: the next one is for any cell, so that they hold up no others. */
  #hadUrgent = false
  readonly #running = new Map<string, { account: string; ended: Promise<void> }>()
  readonly #jitter = new Map<string, number>()
  readonly #notBefore = new Map<string, number>()
  /** Failures of each cell since its last backup. */
  readonly #failures = new Map<string, number>()
  readonly #needed = new Map<string, NeededBase>()
  readonly #abort = new AbortController()
  #run: RunBackup | undefined
  #timer: Timer | undefined

  constructor(
    settings: ScheduleSettings,
    cells: Pick<ChangedCells, keyof ChangedCells>,
    clock: Clock,
    random: () => number,
    log: Log,
  ) {
    this.#settings = settings
    this.#cells = cells
    this.#clock = clock
    this.#random = random
    this.#failed = new OutageLog(clock, log)
  }

  /** Starts due backups, now and from here on. */
  start(run: RunBackup): void {
    this.#run = run
    this.reschedule()
  }

  /** Plans a backup of every changed cell, and starts those that are due. */
  reschedule(): void {
    if (!this.#isRunning) return
    for (const progress of this.#cells.all()) this.#plan(progress)
    this.#startDue()
  }

  /** Call at a cell's first change since its newest backup. */
  changed(cellId: string): void {
    if (!this.#isRunning) return
    this.#planCell(cellId)
    this.#startDue()
  }

  /**
   * Asks for a version that a cell needs, whatever the intervals are: it is due now, and tried until there is one. All who wait for
   * the same cell share it.
   *
   * @returns once a version is stored that began after this call @throws `cell_not_found`, `store_closed`
   */
  async needsBase(cellId: string, reason: BaseReason): Promise<void> {
    // It may lack what has happened since its cut.
    const running = this.#running.get(cellId)
    if (running !== undefined) return await running.ended.then(() => this.needsBase(cellId, reason))
    const needed = this.#needed.get(cellId) ?? { reason, ...Promise.withResolvers<void>() }
    this.#needed.set(cellId, needed)
    this.#notBefore.delete(cellId)
    this.changed(cellId)
    await unlessAborted(needed.promise, this.#abort.signal)
  }

  /** Cancels running backups. Their cells stay changed, and are backed up after the next start. */
  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#abort.abort(new CellError('store_closed', 'The store is closed.'))
    await Promise.allSettled([...this.#running.values()].map(({ ended }) => ended))
  }

  get #isRunning(): boolean {
    return this.#run !== undefined && !this.#abort.signal.aborted
  }

  /** Starts due backups, and sets the timer for the next one. */
  #startDue(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const now = this.#clock.now()
    for (const { cellId, reason } of this.#due.takeDue(now)) {
      const account = this.#cells.accountOf(cellId)
      this.#waiting.add(account, cellId)
      if (reason === URGENT) this.#urgent.add(account, cellId)
    }
    // Each backup that ends calls this again.
    while (this.#running.size < this.#settings.concurrency) {
      const cellId = this.#take()
      if (cellId === undefined) break
      this.#due.remove(cellId)
      const due = this.#dueNow(cellId)
      if (due !== undefined && due.at > now) this.#due.put(due)
      else if (due !== undefined) this.#start(due)
    }
    const { first } = this.#due
    if (first === undefined) return
    const waitMs = Math.min(first.at - now, TIMER_MS_MAX)
    this.#timer = this.#clock.setTimer(() => this.#startDue(), waitMs)
  }

  /** Removes and returns the cell whose turn it is. */
  #take(): string | undefined {
    const mayHave = (account: string) => this.#isWithinShare(account)
    const urgent = this.#hadUrgent ? undefined : this.#urgent.take(mayHave)
    this.#hadUrgent = urgent !== undefined
    const cellId = urgent ?? this.#waiting.take(mayHave)
    if (cellId === undefined) return undefined
    const account = this.#cells.accountOf(cellId)
    this.#waiting.remove(account, cellId)
    this.#urgent.remove(account, cellId)
    return cellId
  }

  #isWithinShare(account: string): boolean {
    if (account === '') return true
    const own = [...this.#running.values()].filter((each) => each.account === account)
    return own.length < Math.max(1, this.#settings.concurrency / 2)
  }

  /** Since the cell was planned, a manual backup may have run, or the cell may have been deleted. */
  #dueNow(cellId: string): Due | undefined {
    const progress = this.#cells.find(cellId)
    const due = progress && this.#dueOf(progress)
    if (due === undefined) this.#forget(cellId)
    return due
  }

  /** The cell is stored, or gone: then it is not stored for those who still wait. */
  #forget(cellId: string): void {
    this.#needed.get(cellId)?.reject(cellNotFound())
    this.#needed.delete(cellId)
    this.#jitter.delete(cellId)
    this.#notBefore.delete(cellId)
    this.#failures.delete(cellId)
    this.#failed.ended(cellId)
  }

  #planCell(cellId: string): void {
    const progress = this.#cells.find(cellId)
    if (progress !== undefined) this.#plan(progress)
    else if (this.#needed.has(cellId)) this.#forget(cellId)
  }

  /** A cell under backup is planned when the backup ends. */
  #plan(progress: BackupProgress): void {
    if (this.#running.has(progress.cellId)) return
    const due = this.#dueOf(progress)
    if (due !== undefined) this.#due.put(due)
  }

  /** A due snapshot replaces the incremental. */
  #dueOf(progress: BackupProgress): Due | undefined {
    const { cellId, dirty, dirtySinceSnapshot, lastBackupAt, lastSnapshotAt } = progress
    const { snapshotEveryMs, incrementalEveryMs, historyWithinMs = 0 } = this.#settings
    const candidates: Omit<Due, 'reason'>[] = []
    const reason = this.#reasonOf(progress)
    if (snapshotEveryMs !== undefined && dirtySinceSnapshot) {
      candidates.push({ cellId, kind: 'snapshot', at: this.#after(cellId, lastSnapshotAt, snapshotEveryMs) })
    }
    if (incrementalEveryMs !== undefined && dirty) {
      candidates.push({
        cellId,
        kind: 'incremental',
        at: this.#after(cellId, lastBackupAt, incrementalEveryMs),
      })
    }
    if (reason !== undefined) {
      const at = this.#after(cellId, progress.changedAt, reason === 'no history' ? historyWithinMs : 0)
      candidates.push({ cellId, kind: 'incremental', at })
    }
    // The earlier one; if both are due, the snapshot, which is first in the list.
    const now = this.#clock.now()
    candidates.sort((a, b) => Math.max(a.at, now) - Math.max(b.at, now))
    return candidates[0] && { ...candidates[0], reason }
  }

  #reasonOf({ cellId, chain, history, dirty, storedTo }: BackupProgress): BaseReason | undefined {
    const beginsHistory = this.#settings.historyWithinMs !== undefined && dirty && !history?.isStored
    if (beginsHistory && storedTo !== null && chain === null) return URGENT
    return this.#needed.get(cellId)?.reason ?? (beginsHistory ? 'no history' : undefined)
  }

  #after(cellId: string, last: number | null, everyMs: number): number {
    const now = this.#clock.now()
    let jitter = this.#jitter.get(cellId)
    if (jitter === undefined) {
      jitter = this.#random() * JITTER
      this.#jitter.set(cellId, jitter)
    }
    const since = last ?? now
    // The clock has stepped back, so the time since the last backup is unknown: back up now.
    const due = since > now ? now : Math.ceil(since + everyMs * (1 + jitter))
    const notBefore = Math.min(this.#notBefore.get(cellId) ?? 0, now + BACK_OFF.maxMs)
    return Math.max(due, notBefore)
  }

  #start({ cellId, kind, reason }: Due): void {
    const { signal } = this.#abort
    const run = this.#run as RunBackup
    // It completes what somebody has asked for: in the archiver it comes before what nobody waits for.
    const ended = run(cellId, kind, { signal }, reason === URGENT ? 'requested' : 'background').then(
      () => {
        this.#needed.get(cellId)?.resolve()
        this.#forget(cellId)
      },
      (err) => {
        // It was deleted meanwhile, or another backup has all of it.
        if (this.#dueNow(cellId) === undefined) return
        const retryMs = this.#retryMs(cellId)
        this.#notBefore.set(cellId, this.#clock.now() + retryMs)
        if (signal.aborted) return
        this.#failed.failed({ cellId, kind, reason, err, retryMs })
      },
    )
    const planned = ended.then(() => {
      this.#running.delete(cellId)
      if (signal.aborted) return
      this.#planCell(cellId)
      this.#startDue()
    })
    this.#running.set(cellId, { account: this.#cells.accountOf(cellId), ended: planned })
  }

  /** The first try again has a time of its own. */
  #retryMs(cellId: string): number {
    const failures = this.#failures.get(cellId) ?? 0
    this.#failures.set(cellId, failures + 1)
    return failures === 0 ? BACK_OFF.minMs : backOffMs(failures, BACK_OFF, this.#random)
  }
}

/** A cell's next backup. */
interface Due {
  cellId: string
  kind: BackupKind
  /** Epoch milliseconds. */
  at: number
  /** Undefined if only an interval is over. */
  reason: BaseReason | undefined
}

/** The next backup of each cell, earliest first. */
class DueList {
  /** Sorted by time. */
  readonly #list: Due[] = []
  readonly #byCell = new Map<string, Due>()

  get first(): Due | undefined {
    return this.#list[0]
  }

  /** Replaces the cell's earlier entry. */
  put(due: Due): void {
    this.remove(due.cellId)
    this.#byCell.set(due.cellId, due)
    this.#list.splice(this.#placeOf(due.at), 0, due)
  }

  /** Removes and returns what is due now. */
  takeDue(now: number): Due[] {
    const due = this.#list.splice(0, this.#placeOf(now))
    for (const { cellId } of due) this.#byCell.delete(cellId)
    return due
  }

  remove(cellId: string): void {
    const known = this.#byCell.get(cellId)
    if (known === undefined) return
    this.#byCell.delete(cellId)
    this.#list.splice(this.#list.indexOf(known), 1)
  }

  /** After all entries of the same time, so that each cell gets its turn. */
  #placeOf(at: number): number {
    let low = 0
    let high = this.#list.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#list[middle] as Due).at <= at) low = middle + 1
      else high = middle
    }
    return low
  }
}
