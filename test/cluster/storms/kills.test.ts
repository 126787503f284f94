import { expect, test } from 'vitest'
import { KillAtMessage, OPERATIONS } from '../../support/cluster/kill-at-message.ts'
import { ClusterStorm } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { seededRandom } from '../../support/seed.ts'

const KILLS = countOf('CELLSTORE_CLUSTER_KILLS')
const MESSAGES_MAX = 60

test.skipIf(!hasPostgres).each(OPERATIONS)(
  `During a %s, a node is killed at any message to its bucket or to PostgreSQL: the others get all ranges, nothing moves for ever, and nothing that was acknowledged is lost: ${KILLS} kills on each side (C1, C3, C5)`,
  { timeout: 120_000 + KILLS * 300_000 },
  async (operation) => {
    const random = seededRandom()
    const cluster = await TestCluster.start(3, ['--durability', 'remote'])
    const storm = new ClusterStorm(cluster, random)
    try {
      await storm.begin(3)
      const kills = new KillAtMessage(storm)
      for (let i = 0; i < KILLS; i++)
        for (const side of ['postgres', 'bucket'] as const)
          console.info(await kills.run(operation, side, 1 + random.below(MESSAGES_MAX)))
      await storm.finish()
      console.info(JSON.stringify(storm.counts))
      expect(storm.violations.slice(0, 10)).toEqual([])
      expect(storm.counts['acknowledged']).toBeGreaterThan(0)
    } catch (err) {
      console.info(`kept: ${storm.keep()}`)
      throw err
    } finally {
      await cluster.stop()
    }
  },
)
