import type { CommitTime } from '../../../engine/wal/commit-times.ts'
import type { CollectedLogs, CollectedLook, LogPiece, UnshippedLog } from './cell-log.ts'

/**
 * A piece on its way from the process that has the cell open to the one that ships it. Its times are one text: for each commit by how
 * much its frames and its time exceed those before it. A node passes on those of ten thousand commits a second, and never looks at
 * them. As lists they took 12 MB of its memory.
 */
export interface PackedPiece extends Omit<LogPiece, 'commits'> {
  commits: string
}

export function packLogs({ logs, ...collected }: CollectedLogs): CollectedLogs<PackedPiece> {
  return { ...collected, logs: logs.map((log) => withTimes(log, packTimes)) }
}

export function unpackLogs({ logs, ...collected }: CollectedLook<PackedPiece>): CollectedLook {
  return { ...collected, logs: logs.map((log) => withTimes(log, unpackTimes)) }
}

function withTimes<From, To>(
  log: UnshippedLog<Omit<LogPiece, 'commits'> & { commits: From }>,
  convert: (commits: From) => To,
) {
  return { ...log, pieces: log.pieces.map((piece) => ({ ...piece, commits: convert(piece.commits) })) }
}

function packTimes(times: readonly CommitTime[]): string {
  const numbers: number[] = []
  let [framesBefore, timeBefore] = [0, 0]
  for (const [frames, time] of times) {
    numbers.push(frames - framesBefore, time - timeBefore)
    framesBefore = frames
    timeBefore = time
  }
  return numbers.join()
}

function unpackTimes(packed: string): CommitTime[] {
  const numbers = JSON.parse(`[${packed}]`) as number[]
  const times: CommitTime[] = []
  let [frames, time] = [0, 0]
  for (let i = 0; i < numbers.length; i += 2) {
    frames += numbers[i] as number
    time += numbers[i + 1] as number
    times.push([frames, time])
  }
  return times
}
