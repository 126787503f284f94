import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { type LogRef, LogRefs, type LogRun, LogSizes } from '../../../src/backup/shipping/log/log-refs.ts'
import { logKey } from '../../../src/backup/versions/object-keys.ts'

const PROGRAM = path.join(import.meta.dirname, '../../support/read-long-row.ts')

/** The sizes of a row are its numbers; an object of size 0 is one, too. */
function refsOf(runs: readonly LogRun[]): { refs: LogRefs; each: LogRef[] } {
  const sizes = new LogSizes()
  const each: LogRef[] = []
  for (const { epoch, from, to, gap } of runs) {
    for (let number = from; number <= to; number++) {
      const sizeBytes = gap === undefined ? number - 1 : 0
      if (gap === undefined) sizes.set({ epoch, number }, sizeBytes)
      const ref = { key: logKey({ epoch, number }), epoch, number, sizeBytes, isMissing: gap !== undefined }
      each.push(gap === 'removed' ? { ...ref, isRemoved: true } : ref)
    }
  }
  return { refs: new LogRefs(runs, sizes), each }
}

const { refs, each } = refsOf([
  { epoch: 1, from: 7, to: 7, gap: 'removed' },
  { epoch: 1, from: 8, to: 12 },
  { epoch: 2, from: 1, to: 1 },
  { epoch: 2, from: 2, to: 2, gap: 'missing' },
  { epoch: 2, from: 510, to: 515 },
])

describe('Log objects in their order', () => {
  test('are as an array of them', () => {
    expect([...refs]).toEqual(each)
    for (let i = -each.length - 2; i < each.length + 2; i++) {
      expect(refs.at(i)).toEqual(each.at(i))
      if (i < 0) continue
      for (let end = -1; end < each.length + 2; end++) {
        const some = refs.slice(i, end)
        expect([...some]).toEqual(each.slice(i, Math.max(0, end)))
        expect(some).toHaveLength([...some].length)
        expect(some.at(-1)).toEqual([...some].at(-1))
      }
    }
    expect([...refs.slice(-3, 2.5)]).toEqual(each.slice(0, 2))
    expect([...LogRefs.none]).toEqual([])
  })

  test('tell which are missing, and where those after a key begin', () => {
    expect([...refs.missing]).toEqual(each.filter(({ isMissing }) => isMissing))
    expect([...refs.withoutRemoved]).toEqual(each.slice(1))
    for (const key of [null, logKey({ epoch: 2, number: 3 }), 'z', ...each.map((ref) => ref.key)]) {
      const first = each.findIndex((ref) => ref.key > (key ?? ''))
      expect(refs.firstAfter(key)).toBe(first === -1 ? each.length : first)
    }
  })

  test('fit into a small heap, however many there are', async () => {
    const count = 300_000
    const run = promisify(execFile)(process.execPath, ['--max-old-space-size=24', PROGRAM, String(count)])
    expect((await run).stdout).toBe(String(count))
  })
})

test('The sizes of log objects tell the newest one before a place', () => {
  const sizes = new LogSizes()
  const places = [1, 3].flatMap((epoch) => [2, 511, 512, 2_000].map((number) => ({ epoch, number })))
  for (const place of places) sizes.set(place, 0)
  for (const [i, place] of places.entries()) expect(sizes.lastBefore(place)).toEqual(places[i - 1])
  expect(sizes.lastBefore({ epoch: 2, number: 1 })).toEqual(places[3])
  expect(sizes.lastBefore({ epoch: 9, number: 1 })).toEqual(places.at(-1))
  expect(sizes.firstOfRow({ epoch: 1, number: 512 }, 1)).toBe(511)
  expect(sizes.firstOfRow({ epoch: 1, number: 512 }, 512)).toBe(512)
})
