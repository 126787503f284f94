import { describe, expect, test } from 'vitest'
import { ChainModel } from '../../support/backup/chain-model.ts'
import { countOf } from '../../support/counts.ts'
import { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'

const RUNS = countOf('CELLSTORE_MODEL_RUNS')
const STEPS = 80

describe('Whatever happens to a cell, every version that is listed restores to exactly its state (invariant 10):', () => {
  test(`${RUNS} sequences of ${STEPS} steps`, { timeout: RUNS * 120_000 }, async () => {
    const seeds = seededRandom()
    const totals = { versions: 0, bases: 0, incrementals: 0, refused: 0, kills: 0 }
    for (let run = 0; run < RUNS; run++) {
      const seed = seeds.below(2 ** 31)
      const model = new ChainModel(new Random(seed))
      try {
        await model.start()
        for (let step = 0; step < STEPS; step++) await model.step()
        totals.versions += await model.prove()
      } catch (error) {
        throw new Error(`run ${run}, seed ${seed}, after: ${model.steps.join(', ')}`, { cause: error })
      } finally {
        await model.dispose()
      }
      for (const key of Object.keys(model.counts) as (keyof typeof model.counts)[])
        totals[key] += model.counts[key]
    }
    console.info(JSON.stringify(totals))
    expect(totals.incrementals).toBeGreaterThan(RUNS * 3)
  })
})
