import { expect, test } from 'vitest'
import type { ManifestHead } from '../../../src/backup/archive/manifest.ts'
import { restorableRanges } from '../../../src/backup/restore/target/restorable-ranges.ts'
import type { LogManifest } from '../../../src/backup/shipping/log/log-manifest.ts'
import { type LogRef, LogRefs, type LogRun, LogSizes } from '../../../src/backup/shipping/log/log-refs.ts'
import { CellLogs } from '../../../src/backup/shipping/stored/cell-logs.ts'
import type { LogIndex } from '../../../src/backup/shipping/stored/log-index.ts'
import { type LogNumber, logKey } from '../../../src/backup/versions/object-keys.ts'
import { CellError } from '../../../src/errors.ts'

const CELL = 'aaaaaaaa-0000-4000-8000-000000000000'
const OBJECTS = 10_000
const VERSIONS = 500
const OBJECTS_PER_VERSION = OBJECTS / VERSIONS

/** Counts how often a log object is looked at. */
class CountedSizes extends LogSizes {
  looks = 0

  override get(place: LogNumber): number | undefined {
    this.looks++
    return super.get(place)
  }
}

/** Log objects of which one may be missing. */
class CountedRow {
  readonly sizes = new CountedSizes()
  readonly #refs: LogRefs

  constructor(missing = OBJECTS + 1) {
    for (let number = 1; number <= OBJECTS; number++) this.sizes.set({ epoch: 1, number }, 1)
    const runs: LogRun[] = [
      { epoch: 1, from: 1, to: missing - 1 },
      { epoch: 1, from: missing, to: missing, gap: 'missing' },
      { epoch: 1, from: missing + 1, to: OBJECTS },
    ]
    this.#refs = new LogRefs(missing > OBJECTS ? runs.slice(0, 1) : runs, this.sizes)
  }

  /** Each has a piece of the cell, in a log of its own. */
  get index(): LogIndex {
    const manifest = async ({ number, isMissing }: LogRef) => {
      if (isMissing) throw new CellError('backup_corrupt', 'It is missing.')
      const piece = { sequence: number, from: 0, to: 1, commits: [[1, number]] }
      const cells = [{ cell_id: CELL, history: 'h', pieces: [piece] }]
      const previous = { key: logKey({ epoch: 1, number: number - 1 }) }
      return { epoch: 1, previous, cells } as unknown as LogManifest
    }
    return { after: async () => this.#refs, manifest } as unknown as LogIndex
  }
}

/** Newest first: each was cut after so many objects. */
const versions = Array.from({ length: VERSIONS }, (_, i) => {
  const number = OBJECTS - (i + 1) * OBJECTS_PER_VERSION
  const after = number === 0 ? null : logKey({ epoch: 1, number })
  return {
    version: `v${number}`,
    created_at: new Date(number).toISOString(),
    log: { history: 'h', sequence: number, frames: 1, at: number, after },
  } as ManifestHead
})

const ranges = (row: CountedRow) =>
  restorableRanges(new CellLogs(row.index), { cellId: CELL, versions, newer: undefined, marks: [] }, {})

test('A listing of many versions looks at each log object a few times, not once for each version', async () => {
  const row = new CountedRow()
  expect(await ranges(row)).toEqual([{ from: 0, to: OBJECTS }])
  expect(row.sizes.looks).toBeLessThan(5 * OBJECTS)
})

test('A listing of many versions knows where a log object is missing', async () => {
  const missing = 4_990
  expect(await ranges(new CountedRow(missing))).toEqual([
    { from: 5_000, to: OBJECTS },
    { from: 0, to: expect.toSatisfy((to) => to < missing) },
  ])
})

test('A listing of many versions gives the event loop turns', async () => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await ranges(new CountedRow())
  isOver = true
  expect(turns).toBeGreaterThan(VERSIONS / 100)
})
