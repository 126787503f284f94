import { channels, traced } from '../base/async/channels.ts'
import type { Log } from '../base/log.ts'
import { type CellErrorKind, isCellError } from '../errors.ts'
import type { BackupKind, BackupOrigin, BackupResult, RestoreResult } from './versions/backup-types.ts'

/** What backups and restores have come to since the start of the process. */
export interface BackupCounts {
  /** That were stored, by kind. */
  stored: Readonly<Record<BackupKind, number>>
  failed: number
  /** Restores that somebody asked for. */
  restored: number
  /** Those of cells whose local data was lost. */
  recovered: number
  restoresFailed: number
}

export interface ReportedBackup {
  cellId: string
  kind: BackupKind
  origin: BackupOrigin
  requestId: string | undefined
  signal: AbortSignal | undefined
}

export interface ReportedRestore {
  cellId: string
  version: string | undefined
  /** Nobody asked for it: the cell's local data is lost. */
  recovers: boolean
  requestId: string | undefined
  signal: AbortSignal | undefined
}

const CALLERS: ReadonlySet<CellErrorKind> = new Set(['request', 'absent', 'conflict'])

/** Counts backups and restores, and tells the log and the traces of each. One that its caller gave up is no failure. */
export class BackupReports {
  readonly #log: Log
  readonly #stored = { snapshot: 0, incremental: 0 }
  #failed = 0
  #restored = 0
  #recovered = 0
  #restoresFailed = 0

  constructor(log: Log) {
    this.#log = log
  }

  get counts(): BackupCounts {
    return {
      stored: { ...this.#stored },
      failed: this.#failed,
      restored: this.#restored,
      recovered: this.#recovered,
      restoresFailed: this.#restoresFailed,
    }
  }

  backup({ signal, ...about }: ReportedBackup, run: () => Promise<BackupResult>): Promise<BackupResult> {
    const reported = async () => {
      try {
        const result = await run()
        const { version, sizeBytes, durationMs } = result
        this.#stored[about.kind]++
        this.#log.info({ ...about, version, sizeBytes, durationMs }, 'a backup is stored')
        return result
      } catch (err) {
        if (isGivenUp(err, signal)) throw err
        this.#failed++
        // The schedule has a line of its own, which says when it tries again.
        if (about.origin !== 'schedule') this.#tell({ ...about, err }, 'a backup failed')
        throw err
      }
    }
    return traced(channels.backup, () => ({ ...about }), reported)
  }

  /** @param run resolves with undefined if nothing was to be done */
  restore(
    { signal, ...about }: ReportedRestore,
    run: () => Promise<RestoreResult | undefined>,
  ): Promise<RestoreResult | undefined> {
    const { recovers, ...asked } = about
    const reported = async () => {
      try {
        const result = await run()
        if (result !== undefined) this.#noteRestored(asked, recovers, result)
        return result
      } catch (err) {
        if (isGivenUp(err, signal)) throw err
        this.#restoresFailed++
        // The recovery of a cell has a line where it was asked for.
        if (!recovers) this.#tell({ ...asked, err }, 'a restore failed; the cell is as it was')
        throw err
      }
    }
    return traced(channels.restore, () => ({ ...about }), reported)
  }

  /** What its caller can mend is no warning: tenants could push all others out of the newest failures. */
  #tell(fields: { err: unknown }, message: string): void {
    const { err } = fields
    const isCallers = isCellError(err) && CALLERS.has(err.kind)
    this.#log[isCallers ? 'info' : 'warn'](fields, message)
  }

  /** A recovery has a line of its own, which says what is lost with it. */
  #noteRestored(asked: object, recovers: boolean, { version, sizeBytes, durationMs }: RestoreResult): void {
    if (recovers) {
      this.#recovered++
      return
    }
    this.#restored++
    this.#log.info({ ...asked, version, sizeBytes, durationMs }, 'a cell is restored')
  }
}

function isGivenUp(error: unknown, signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true || isCellError(error, 'store_closed')
}
