import { describe, expect, test, vi } from 'vitest'
import { UnshippedTimes } from '../../../src/backup/changes/history.ts'
import { CellHistory } from '../../../src/backup/changes/log/cell-history.ts'
import { KeptLogs } from '../../../src/backup/changes/log/kept-logs.ts'
import { Checkpoints } from '../../../src/engine/wal/checkpoints.ts'
import { HistoryModel } from '../../support/backup/history-model.ts'
import { countOf } from '../../support/counts.ts'
import { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'

const RUNS = countOf('CELLSTORE_HISTORY_RUNS')
const STEPS = 60

async function runs(count: number, seeds: Random): Promise<Record<string, number>> {
  const totals: Record<string, number> = {}
  for (let run = 0; run < count; run++) {
    const seed = seeds.below(2 ** 31)
    const model = new HistoryModel(new Random(seed))
    await model.start()
    try {
      for (let step = 0; step < STEPS; step++) await model.step()
      await model.prove()
    } catch (error) {
      throw new Error(`run ${run}, seed ${seed}, after: ${model.steps.join(', ')}`, { cause: error })
    } finally {
      await model.dispose().catch((error) => console.error(error))
    }
    for (const [key, value] of Object.entries(model.counts)) totals[key] = (totals[key] ?? 0) + value
  }
  return totals
}

describe('Whatever happens to a cell, a version and what was shipped after it are the cell at every moment:', () => {
  test(`${RUNS} sequences of ${STEPS} steps`, { timeout: RUNS * 60_000 }, async () => {
    const totals = await runs(RUNS, seededRandom())
    console.info(JSON.stringify(totals))
    expect(totals['moments']).toBeGreaterThan(RUNS * 10)
    expect(totals['holes']).toBeGreaterThan(RUNS)
  })
})

async function powerLoss(): Promise<void> {
  const model = new HistoryModel(seededRandom())
  try {
    await model.start()
    await model.loseWhatWasShipped()
  } finally {
    await model.dispose().catch((error) => console.error(error))
  }
}

test('what is committed after a power loss replaces what was shipped and then lost', async () => {
  await powerLoss()
})

describe('The model finds it if', () => {
  const timeout = 200_000

  test('the place is not set back after a power loss', { timeout }, async () => {
    const { framesBefore } = Checkpoints.prototype
    const { opened } = CellHistory.prototype
    let isOpening = false
    vi.spyOn(CellHistory.prototype, 'opened').mockImplementation(function (this: CellHistory, database) {
      isOpening = true
      try {
        opened.call(this, database)
      } finally {
        isOpening = false
      }
    })
    vi.spyOn(Checkpoints.prototype, 'framesBefore').mockImplementation(function (this: Checkpoints, frames) {
      return isOpening ? Number.POSITIVE_INFINITY : framesBefore.call(this, frames)
    })
    await expect(powerLoss()).rejects.toThrow(/SQLite took|restored to/)
  })

  test('a log that goes on after a version keeps its number', { timeout }, async () => {
    vi.spyOn(KeptLogs.prototype, 'numberOf').mockImplementation(function (this: KeptLogs) {
      return { sequence: Math.max(this.newest, 1), kept: 0 }
    })
    await expect(runs(6, seededRandom())).rejects.toThrow('run')
  })

  test('a log is kept without frames that are not shipped', { timeout }, async () => {
    const { shippedOf } = CellHistory.prototype
    vi.spyOn(CellHistory.prototype, 'shippedOf').mockImplementation(function (this: CellHistory, sequence) {
      return shippedOf.call(this, sequence) + 3
    })
    await expect(runs(6, seededRandom())).rejects.toThrow('run')
  })

  test('commits get the time of those before them', { timeout }, async () => {
    const { between } = UnshippedTimes.prototype
    vi.spyOn(UnshippedTimes.prototype, 'between').mockImplementation(function (
      this: UnshippedTimes,
      ...args
    ) {
      const times = between.apply(this, args)
      return times.map(([frames], i) => [frames, times[Math.max(i - 1, 0)]?.[1] as number])
    })
    await expect(runs(6, seededRandom())).rejects.toThrow('run')
  })
})
