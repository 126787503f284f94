import type { Clock, Timer } from '../engine/clock.ts'
import type { Log } from '../engine/log.ts'
import type { BackupManager } from './backup-manager.ts'
import type { BackupKind } from './cell-backup.ts'
import type { BackupProgress } from './progress-table.ts'

export interface ScheduleSettings {
  /** Milliseconds; undefined: none. */
  snapshotEveryMs?: number | undefined
  incrementalEveryMs?: number | undefined
  /** Scheduled backups that run at once. */
  concurrency: number
}

interface Due {
  cellId: string
  kind: BackupKind
  at: number
}

/** Cells that changed together are not backed up together: each waits up to this share of the interval longer. */
const JITTER = 0.1
const RETRY_MS = 30_000

/**
 * Backs up every cell that has changed, after each interval: a snapshot, or an incremental. A cell that did not change
 * is not even looked at, and costs no request.
 */
export class BackupSchedule {
  readonly #settings: ScheduleSettings
  readonly #backups: BackupManager
  readonly #clock: Clock
  readonly #random: () => number
  readonly #log: Log
  readonly #running = new Map<string, Promise<void>>()
  readonly #jitter = new Map<string, number>()
  readonly #notBefore = new Map<string, number>()
  readonly #abort = new AbortController()
  #timer: Timer | undefined

  constructor(
    settings: ScheduleSettings,
    backups: BackupManager,
    clock: Clock,
    random: () => number,
    log: Log,
  ) {
    this.#settings = settings
    this.#backups = backups
    this.#clock = clock
    this.#random = random
    this.#log = log
  }

  get enabled(): boolean {
    return this.#settings.snapshotEveryMs !== undefined || this.#settings.incrementalEveryMs !== undefined
  }

  /** A cell has changed for the first time since its newest backup. While a timer is set, it stands behind others. */
  changed(): void {
    if (this.#timer === undefined && this.#running.size === 0) this.look()
  }

  /** Starts what is due, and sets the timer for what is due next. */
  look(): void {
    if (!this.enabled || this.#abort.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = undefined
    const now = this.#clock.now()
    const due = this.#backups
      .changed()
      .filter(({ cellId }) => !this.#running.has(cellId))
      .map((progress) => this.#dueOf(progress))
      .filter((each) => each !== undefined)
      .sort((a, b) => a.at - b.at)
    for (const each of due) {
      if (each.at > now) {
        this.#timer = this.#clock.setTimer(() => this.look(), each.at - now)
        return
      }
      // Each that ends looks again.
      if (this.#running.size >= this.#settings.concurrency) return
      this.#start(each)
    }
  }

  /** Gives up what is running; the cells stay changed, and are backed up after the next start. */
  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#abort.abort()
    await Promise.allSettled(this.#running.values())
  }

  /** A snapshot that is due stands for the incremental as well. */
  #dueOf(progress: BackupProgress): Due | undefined {
    const { cellId, dirty, dirtySinceSnapshot, lastBackupAt, lastSnapshotAt } = progress
    const { snapshotEveryMs, incrementalEveryMs } = this.#settings
    const candidates: Due[] = []
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
    // First the earlier; of those that are due by now, the snapshot.
    const now = this.#clock.now()
    candidates.sort((a, b) => Math.max(a.at, now) - Math.max(b.at, now))
    return candidates[0]
  }

  #after(cellId: string, last: number | null, everyMs: number): number {
    let jitter = this.#jitter.get(cellId)
    if (jitter === undefined) {
      jitter = this.#random() * JITTER
      this.#jitter.set(cellId, jitter)
    }
    const due = (last ?? this.#clock.now()) + everyMs * (1 + jitter)
    return Math.max(Math.ceil(due), this.#notBefore.get(cellId) ?? 0)
  }

  #start({ cellId, kind }: Due): void {
    const signal = this.#abort.signal
    const run =
      kind === 'snapshot'
        ? this.#backups.snapshot(cellId, { signal })
        : this.#backups.incremental(cellId, { signal })
    const running = run.then(
      () => {
        this.#jitter.delete(cellId)
        this.#notBefore.delete(cellId)
      },
      (error) => {
        this.#notBefore.set(cellId, this.#clock.now() + RETRY_MS)
        if (!signal.aborted)
          this.#log.warn({ cellId, kind, err: error }, 'a scheduled backup failed; it will be tried again')
      },
    )
    this.#running.set(cellId, running)
    running.finally(() => {
      this.#running.delete(cellId)
      this.look()
    })
  }
}
