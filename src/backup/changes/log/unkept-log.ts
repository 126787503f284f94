import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import { fingerprintOf } from '../file-fingerprint.ts'
import type { KeptLogs, LiveLog } from './kept-logs.ts'
import type { Segment } from './segments.ts'

/** The frames of the live log, if it has any that no segment has. */
export interface UnkeptLog extends LiveLog {
  frames: number
}

export interface UnkeptLogParts {
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
