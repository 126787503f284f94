import { expect, test } from 'vitest'
import { entryOf, MUTANTS, type Mutant } from '../../support/cluster/mutants.ts'
import { ClusterStorm } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { Random } from '../../support/random.ts'
import { SEED } from '../../support/seed.ts'
import { sideBySide } from '../../support/side-by-side.ts'

const RULES = countOf('CELLSTORE_CLUSTER_RULES')
/** Some need luck with what a storm hits. */
const STORMS_MAX = 5

/** @returns the rules that the history breaks */
async function violated(mutant: Mutant, seed: number, entry?: string): Promise<string[]> {
  const parts = { nodes: 3, flags: ['--durability', 'remote'] }
  const cluster = await TestCluster.start(entry === undefined ? parts : { ...parts, entry })
  try {
    const storm = new ClusterStorm(cluster, new Random(seed))
    await storm.begin(4)
    await mutant.scenario(storm)
    await cluster.heal()
    await storm.finish()
    return [...new Set(storm.violations.map(({ rule }) => rule))]
  } finally {
    await cluster.stop()
  }
}

test.skipIf(!hasPostgres)(
  `Real nodes without one of the rules break what is promised, and the checker of histories finds it: ${RULES} rules`,
  { timeout: 600_000 + Math.min(RULES, MUTANTS.length) * 300_000 },
  async () => {
    const chosen = MUTANTS.map((_, i) => MUTANTS[(i + SEED) % MUTANTS.length] as Mutant).slice(0, RULES)
    await sideBySide(chosen, async (mutant) => {
      expect(await violated(mutant, SEED), `with the rule: ${mutant.rule}`).toEqual([])
      const entry = entryOf(mutant)
      let found: string[] = []
      let storms = 0
      while (found.length === 0 && storms < STORMS_MAX) found = await violated(mutant, SEED + storms++, entry)
      console.info(`${mutant.rule}: without it, after ${storms} storms: ${found.join(', ') || 'nothing'}`)
      expect(found, `without the rule: ${mutant.rule}`).not.toEqual([])
    })
  },
)
