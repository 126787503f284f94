import { expect, test } from 'vitest'
import { withEta } from '../../../src/backup/archiver/eta.ts'
import type { BackupProgressEvent } from '../../../src/backup/versions/backup-types.ts'
import { FakeClock } from '../../support/fake-clock.ts'

function etas() {
  const clock = new FakeClock()
  const seen: (number | undefined)[] = []
  const tell = withEta(({ etaMs }) => seen.push(etaMs), clock) as (event: BackupProgressEvent) => void
  const download = (bytes: number, total = 10_000) => {
    tell({ phase: 'download', bytes, total })
    return seen.at(-1)
  }
  return { clock, tell, download, seen }
}

test('nothing is known of the rest before half a second, or without a byte', () => {
  const { clock, download } = etas()
  expect(download(0)).toBeUndefined()
  clock.advance(399)
  expect(download(400)).toBeUndefined()
  clock.advance(101)
  expect(download(500)).toBe(9_500)
  const idle = etas()
  idle.download(100)
  idle.clock.advance(5_000)
  expect(idle.download(100)).toBeUndefined()
})

test('the rest takes as long as the last ten seconds say, and nothing at the end', () => {
  const { clock, download } = etas()
  for (let second = 0; second <= 20; second++) {
    download(second * 100)
    clock.advance(1_000)
  }
  // From here on ten times as fast.
  for (let second = 1; second <= 12; second++) {
    download(2_000 + second * 500)
    clock.advance(1_000)
  }
  expect(download(8_000)).toBeGreaterThan(3_000)
  expect(download(8_000)).toBeLessThan(5_000)
  expect(download(10_000)).toBe(0)
})

test('a new phase begins from nothing', () => {
  const { clock, tell, download, seen } = etas()
  download(0)
  clock.advance(1_000)
  expect(download(5_000)).toBe(1_000)
  tell({ phase: 'upload', bytes: 100, total: 200 })
  expect(seen.at(-1)).toBeUndefined()
})

test('of many events in a short time, the first and the last of a phase are told, and one each tenth of a second', () => {
  const clock = new FakeClock()
  const told: string[] = []
  const tell = withEta(({ phase, bytes }) => told.push(`${phase} ${bytes}`), clock)
  for (const phase of ['download', 'upload'] as const)
    for (let bytes = 0; bytes <= 100; bytes++) {
      tell?.({ phase, bytes, total: 100 })
      clock.advance(2)
    }
  expect(told).toEqual(
    ['download', 'upload'].flatMap((phase) => [0, 50, 100].map((bytes) => `${phase} ${bytes}`)),
  )
})
