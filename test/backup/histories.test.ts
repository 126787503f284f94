import { describe, expect, test } from 'vitest'
import { History } from '../support/backup/histories/history.ts'
import { countOf } from '../support/counts.ts'
import { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'

const HISTORIES = countOf('CELLSTORE_HISTORIES')
const STEPS = 60

describe('Whatever happens to cells, to this machine and to the bucket (invariants 9, 10, 14):', () => {
  test(`what restores is exactly its version, and damage is refused by name: ${HISTORIES} histories`, {
    timeout: 180_000 + HISTORIES * 20_000,
  }, async () => {
    const seeds = seededRandom()
    const totals: Record<string, number> = {}
    for (let run = 0; run < HISTORIES; run++) {
      const seed = seeds.below(2 ** 31)
      const history = new History(new Random(seed))
      try {
        await history.start()
        for (let step = 0; step < STEPS; step++) await history.step()
        await history.prove()
      } catch (error) {
        throw new Error(`history ${run}, seed ${seed}, after: ${history.steps.join(', ')}`, { cause: error })
      } finally {
        await history.dispose()
      }
      for (const [what, count] of Object.entries(history.counts)) totals[what] = (totals[what] ?? 0) + count
    }
    console.info(JSON.stringify(totals))
    for (const what of ['backups', 'restored', 'refused', 'lost', 'damaged'])
      expect(totals[what], what).toBeGreaterThan(0)
  })
})
