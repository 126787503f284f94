import { setImmediate } from 'node:timers/promises'
import type { Need } from '../../../src/backup/archiver/job.ts'
import { type BackupProgress, untouched } from '../../../src/backup/changes/backup-progress.ts'
import type { ChangedCells } from '../../../src/backup/changes/progress-table.ts'
import { BackupSchedule, type ScheduleSettings } from '../../../src/backup/schedule/schedule.ts'
import type { BackupResult } from '../../../src/backup/versions/backup-types.ts'
import { CellError } from '../../../src/errors.ts'
import { FakeClock } from '../fake-clock.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS

/** Backups that take as long as the test wants, of cells that change when the test says so. */
export class PlannedBackups implements Pick<ChangedCells, keyof ChangedCells> {
  readonly clock = new FakeClock(0)
  readonly cells = new Map<string, BackupProgress>()
  readonly made: { cellId: string; kind: string; at: number }[] = []
  readonly needs: Need[] = []
  readonly running: { cellId: string; end: (error?: Error) => void }[] = []
  readonly lines: { level: string; message: string; cellId?: string }[] = []
  /** What each backup fails with. */
  failure: Error | undefined
  /** Backups end at once. */
  quick = true
  /** How often rows were read. */
  scans = 0
  looks = 0

  schedule(settings: Partial<ScheduleSettings>, random = () => 0): BackupSchedule {
    const log = {
      info: (fields: object, message: string) => void this.lines.push({ level: 'info', message, ...fields }),
      warn: (fields: object, message: string) => void this.lines.push({ level: 'warn', message, ...fields }),
      error() {},
    }
    const schedule = new BackupSchedule({ concurrency: 2, ...settings }, this, this.clock, random, log)
    schedule.start((cellId, kind, { signal }, need) => this.make(cellId, kind, signal, need))
    this.scans = 0
    return schedule
  }

  change(cellId: string): void {
    const now = this.clock.now()
    const before = this.cells.get(cellId)
    this.cells.set(cellId, {
      ...untouched(cellId),
      lastBackupAt: now,
      lastSnapshotAt: now,
      changedAt: now,
      ...before,
      dirty: true,
      dirtySinceSnapshot: true,
    })
  }

  all(): BackupProgress[] {
    this.scans++
    return [...this.cells.values()].filter((each) => each.dirty || each.dirtySinceSnapshot)
  }

  find(cellId: string): BackupProgress | undefined {
    this.looks++
    return this.cells.get(cellId)
  }

  accountOf(cellId: string): string {
    return cellId.split('/')[1] ?? ''
  }

  times(): number[] {
    return this.made.map(({ at }) => at)
  }

  async make(
    cellId: string,
    kind: 'snapshot' | 'incremental',
    signal?: AbortSignal,
    need: Need = 'background',
  ): Promise<BackupResult> {
    const at = this.clock.now()
    const progress = this.cells.get(cellId) as BackupProgress
    this.made.push({ cellId, kind, at })
    this.needs.push(need)
    if (this.failure !== undefined) throw this.failure
    if (!this.quick) {
      await new Promise<void>((resolve, reject) => {
        this.running.push({ cellId, end: (error) => (error ? reject(error) : resolve()) })
        signal?.addEventListener('abort', () => reject(new CellError('store_closed', 'closed')))
      })
    }
    const after: BackupProgress = { ...progress, dirty: false, lastBackupAt: at }
    if (kind === 'snapshot') Object.assign(after, { dirtySinceSnapshot: false, lastSnapshotAt: at })
    this.cells.set(cellId, after)
    return {} as BackupResult
  }
}

/** Lets time pass in steps, and what falls due be done. */
export async function pass(backups: PlannedBackups, ms: number, stepMs = MINUTE_MS): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    backups.clock.advance(stepMs)
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
}
