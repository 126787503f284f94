import type { CommitTime } from '../../../engine/wal/commit-times.ts'
import { walBytes } from '../../../engine/wal/wal-file.ts'
import type { Place } from '../history.ts'
import type { LogPiece } from '../log/cell-log.ts'
import type { Segment } from '../log/segments.ts'

/** What a cell has not shipped yet, or as much of it as there is room for. */
export interface UnshippedPieces {
  pieces: LogPiece[]
  bytes: number
  /** Whether there was no room for some of it. */
  hasMore: boolean
}

/** The live log, or a segment. */
export type LogWithFrames = Pick<Segment, 'sequence' | 'frames' | 'pageSize' | 'salts' | 'path'>

/**
 * Takes what follows a place, commit by commit.
 *
 * @param room the most bytes, unless the first commit has more
 * @param commitsOf those of a log's frames; the last one has all frames
 * @returns the pieces, and the place at which they end
 */
export function takePieces(
  logs: readonly LogWithFrames[],
  from: Place,
  room: number,
  commitsOf: (log: LogWithFrames, from: number) => CommitTime[],
): UnshippedPieces & { end: Place } {
  const pieces: LogPiece[] = []
  let bytes = 0
  let end: Place = { sequence: from.sequence, frames: from.frames }
  for (const log of logs) {
    const { sequence, salts, pageSize, path } = log
    const begin = end.sequence === sequence ? end.frames : 0
    if (begin >= log.frames) continue
    const bytesUpTo = (frames: number) =>
      walBytes(frames, pageSize) - (begin === 0 ? 0 : walBytes(begin, pageSize))
    const commits = commitsOf(log, begin).filter(
      ([frames], i) => (pieces.length === 0 && i === 0) || bytes + bytesUpTo(frames) <= room,
    )
    const to = commits.at(-1)?.[0]
    if (to !== undefined) {
      pieces.push({ sequence, salts, pageSize, from: begin, to, path, commits })
      bytes += bytesUpTo(to)
      end = { sequence, frames: to }
    }
    if (to !== log.frames) return { pieces, bytes, hasMore: true, end }
  }
  return { pieces, bytes, hasMore: false, end }
}
