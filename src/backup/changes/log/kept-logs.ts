import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import { type WalHeader, WalReader } from '../../../engine/wal/wal-file.ts'
import type { BackupProgress } from '../backup-progress.ts'
import { fingerprintOf } from '../file-fingerprint.ts'
import { type Segment, Segments } from './segments.ts'

export interface LiveLog extends WalHeader {
  /** The number that it gets. */
  sequence: number
  /** How much of it is kept already. */
  kept: number
}

/** A log that is kept before a checkpoint overwrites it, and the numbers that tell it from the others of its cell. */
export class KeptLogs {
  readonly segments: Segments
  /** The newest number in use. */
  newest: number
  /** Segments up to this one are uploaded, or will be: none of them may grow. */
  sealed: number

  constructor(directory: string, { chain, base, history }: BackupProgress) {
    this.segments = new Segments(directory)
    this.newest = Math.max(chain?.newest ?? 0, base?.newest ?? 0, history?.newest ?? 0)
    // Without a history an earlier process may have named any of them to an upload that still runs.
    const sealed = history === null ? this.newest : Math.min(history.sealed, this.newest)
    this.sealed = Math.max(sealed, base?.from ?? 0)
  }

  list(): Segment[] {
    return this.segments.list()
  }

  /** @param after frames that nobody needs */
  keep(wal: string, frames: number, after: number): void {
    this.newest = this.segments.keep(wal, frames, this.newest, this.sealed, after)
  }

  seal(): void {
    this.sealed = this.newest
  }

  /** The log, as it would be kept now. @throws `Error` if it has no header */
  live(wal: string, kept: readonly Segment[]): LiveLog {
    using log = new WalReader(wal)
    return { ...log.header, ...this.numberOf(log.header.salts, kept) }
  }

  /** The number that a log gets when it is kept; how much of it is kept already. */
  numberOf(salts: string, kept: readonly Segment[]): { sequence: number; kept: number } {
    const last = kept.at(-1)
    if (last?.sequence !== this.newest || last.salts !== salts) return { sequence: this.newest + 1, kept: 0 }
    return { sequence: this.newest > this.sealed ? this.newest : this.newest + 1, kept: last.frames }
  }
}

/** The frames of the live log, if it has any that no segment has. */
interface UnkeptLog extends LiveLog {
  frames: number
}

interface UnkeptLogParts {
  paths: CellPaths
  logs: KeptLogs
}

/**
 * @param database the cell, if it is open
 * @returns 'later' while a caller has to end a broken transaction; 'out of reach' if there is a log, and the cell is kept
 * closed: only SQLite could say how much of it counts
 */
export function findUnkeptLog(
  parts: UnkeptLogParts,
  database: CellDatabase | undefined,
  kept: readonly Segment[],
): UnkeptLog | undefined | 'later' | 'out of reach' {
  const frames = database?.holds.framesToKeep()
  if (frames !== undefined) return unkeptLogOf(parts, frames, kept)
  const wal = fingerprintOf(parts.paths.wal)
  if (wal === undefined || wal.size === 0 || isKept(parts, kept)) return undefined
  return database === undefined || database.quarantined !== undefined ? 'out of reach' : 'later'
}

/** @param frames as SQLite counts them */
export function unkeptLogOf(
  { logs, paths }: UnkeptLogParts,
  frames: number,
  kept: readonly Segment[],
): UnkeptLog | undefined {
  if (frames === 0) return undefined
  const log = logs.live(paths.wal, kept)
  return frames > log.kept ? { ...log, frames } : undefined
}

/** Whether the log of a cell that SQLite does not have open is the newest segment. */
function isKept({ logs, paths }: UnkeptLogParts, kept: readonly Segment[]): boolean {
  try {
    return logs.live(paths.wal, kept).salts === kept.at(-1)?.salts
  } catch {
    // It is damaged too, or the disk fails.
    return false
  }
}
