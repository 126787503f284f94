import { describe, expect, test } from 'vitest'
import { TimeModel } from '../support/backup/times/time-model.ts'
import { countOf } from '../support/counts.ts'
import { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'

const TIMESTAMPS = countOf('CELLSTORE_TIMESTAMPS')
const STEPS = 50
/** At the end of each run; some are among the steps. */
const RESTORES = 10

describe('Whatever happens to cells, to their store and to the clock:', () => {
  test(`a restore to a time brings back exactly what was committed up to then: ${TIMESTAMPS} moments`, {
    timeout: 180_000 + TIMESTAMPS * 5_000,
  }, async () => {
    const seeds = seededRandom()
    const totals: Record<string, number> = {}
    while ((totals['moments'] ?? 0) < TIMESTAMPS) {
      const seed = seeds.below(2 ** 31)
      const model = new TimeModel(new Random(seed))
      try {
        await model.start()
        for (let step = 0; step < STEPS; step++) await model.step()
        for (let i = 0; i < RESTORES; i++) await model.restoreOne(i % 5 === 4)
        await model.prove()
      } catch (error) {
        throw new Error(`seed ${seed}, after: ${model.steps.join(', ')}`, { cause: error })
      } finally {
        await model.dispose()
      }
      for (const [what, count] of Object.entries(model.counts)) totals[what] = (totals[what] ?? 0) + count
    }
    console.info(JSON.stringify(totals))
    // In few moments nobody may undo anything.
    const wanted = TIMESTAMPS < 100 ? ['claimed', 'clockSteps'] : ['claimed', 'undone', 'clockSteps']
    for (const what of wanted) expect(totals[what], what).toBeGreaterThan(0)
  })
})
