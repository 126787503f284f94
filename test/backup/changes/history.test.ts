import { expect, test } from 'vitest'
import type { BackupProgress } from '../../../src/backup/changes/backup-progress.ts'
import { type History, unshippedSegments } from '../../../src/backup/changes/history.ts'
import { CellHistory } from '../../../src/backup/changes/log/cell-history.ts'
import { KeptLogs } from '../../../src/backup/changes/log/kept-logs.ts'
import type { Segment } from '../../../src/backup/changes/log/segments.ts'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { walBytes } from '../../../src/engine/wal/wal-file.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const segment = (sequence: number, frames: number) => ({ sequence, frames }) as Segment
const history = (place: Partial<History>) => ({ sequence: 3, frames: 0, newest: 3, ...place }) as History

test('what follows the shipped place is unshipped, the rest of its own segment too', () => {
  const kept = [segment(3, 10), segment(4, 20)]
  expect(unshippedSegments(history({ frames: 5, newest: 4 }), kept)).toEqual(kept)
})

test('a history has ended where a segment is missing', () => {
  expect(unshippedSegments(history({ newest: 5 }), [segment(3, 10), segment(5, 20)])).toBeUndefined()
})

test('a history has ended where its row is older than a segment, which may have a hole for what was shipped since', () => {
  // The log of number 4 is shipped up to frame 5, and was still in use when the row was written.
  expect(unshippedSegments(history({ sequence: 4, frames: 5 }), [])).toEqual([])
  expect(unshippedSegments(history({ sequence: 4, frames: 5 }), [segment(4, 20)])).toBeUndefined()
})

test.each([
  ['goes on if all of it but 64 MiB is shipped', 4_000, true],
  ['ends if more than that is not', 3_999, false],
])('a history with a segment larger than its database %s', (_, shipped, goesOn) => {
  const pageSize = 4_096
  // 64 MiB of frames, after those that are shipped: the segment has a hole there.
  const frames = 4_000 + Math.floor((64 * 1_048_576) / (pageSize + 24))
  const large = { sequence: 3, frames, pageSize, size: walBytes(frames, pageSize) } as Segment
  const progress = { chain: null, base: null, history: history({ frames: shipped }) } as BackupProgress
  const paths = new StorePaths(tempDirectory()).cell('00000000-0000-4000-8000-000000000000')
  const logs = new KeptLogs(paths.segments, progress)
  const clock = new FakeClock()
  new CellHistory({ progress, paths, logs, clock, onUnshipped: () => {} }).bound([large], 1_000_000)
  expect(progress.history !== null).toBe(goesOn)
})
