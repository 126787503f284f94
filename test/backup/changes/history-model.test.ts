import { describe, expect, test } from 'vitest'
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
    try {
      await model.start()
      for (let step = 0; step < STEPS; step++) await model.step()
      await model.prove()
    } catch (error) {
      throw new Error(`run ${run}, seed ${seed}, after: ${model.steps.join(', ')}`, { cause: error })
    } finally {
      await model.dispose().catch((error) => console.error(error))
    }
    for (const [key, count] of Object.entries(model.counts)) totals[key] = (totals[key] ?? 0) + count
  }
  return totals
}

describe('Whatever happens to a cell, a version and what was shipped after it are the cell at every moment:', () => {
  test(`${RUNS} sequences of ${STEPS} steps`, { timeout: RUNS * 60_000 }, async () => {
    const totals = await runs(RUNS, seededRandom())
    console.info(JSON.stringify(totals))
    expect(totals['moments']).toBeGreaterThan(RUNS * 10)
  })
})
