import { expect, test } from 'vitest'
import { type CollectedLogs, type LogPiece, lookOf } from '../../../src/backup/changes/log/cell-log.ts'
import { type PackedPiece, packLogs, unpackLogs } from '../../../src/backup/changes/log/packed-logs.ts'

const NOW = 1_764_170_000_000

function piece(sequence: number, commits: [frames: number, time: number][]): LogPiece {
  const to = commits.at(-1)?.[0] ?? 0
  return { sequence, salts: '0011223344556677', pageSize: 4_096, from: 7, to, path: '/cell.db-wal', commits }
}

function collected(...pieces: LogPiece[]): CollectedLogs {
  return {
    logs: [{ cellId: 'cell', history: 'history', pieces }],
    isAll: false,
    hasMore: true,
    withoutHistory: ['another'],
    withoutHistoryCount: 1,
    unreadable: ['a third'],
    asOf: NOW,
    allAsOf: NOW - 1,
    complete: ['cell'],
  }
}

test('what was packed, and has been through JSON, is what was collected', () => {
  const busy = Array.from({ length: 1_000 }, (_, i): [number, number] => [
    10 + 2 * i,
    NOW + Math.floor(i / 3),
  ])
  const logs = collected(piece(1, [[8, NOW - 1]]), piece(2, []), piece(3, busy))
  const { complete, ...sent }: CollectedLogs<PackedPiece> = JSON.parse(JSON.stringify(packLogs(logs)))
  const look = { ...sent, look: 3, askedIn: 3, complete: { [String(complete)]: 3 } }
  expect(unpackLogs(look)).toEqual(lookOf(logs, 3))
})

test('a commit takes a few characters: a tick can bring ten thousand of them', () => {
  const busy = Array.from({ length: 1_000 }, (_, i): [number, number] => [1 + i, NOW + i])
  const [log] = packLogs(collected(piece(1, busy))).logs
  expect(log?.pieces[0]?.commits.length).toBeLessThan(5_000)
})
