import { expect, test } from 'vitest'
import { ClusterStorm } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { seededRandom } from '../../support/seed.ts'

const STORMS = countOf('CELLSTORE_CLUSTER_STORMS')
const STEPS = 8

test.skipIf(!hasPostgres)(
  `Three nodes under kills, sleeps, cut links and a PostgreSQL that dies or forgets lose nothing that was acknowledged, serve nothing stale, and admit no revoked key: ${STORMS} storms of ${STEPS} faults (C1 to C9)`,
  { timeout: 180_000 + STORMS * 300_000 },
  async () => {
    const random = seededRandom()
    for (let i = 0; i < STORMS; i++) {
      const cluster = await TestCluster.start(3, ['--durability', 'remote'])
      try {
        const storm = new ClusterStorm(cluster, random)
        await storm.run({ cells: 4, steps: STEPS })
        console.info(JSON.stringify(storm.counts))
        if (storm.violations.length > 0)
          console.info(`${storm.violations.length} violations: ${storm.keep()}`)
        expect(storm.violations.slice(0, 10)).toEqual([])
        expect(storm.counts['acknowledged']).toBeGreaterThan(0)
      } finally {
        await cluster.stop()
      }
    }
  },
)
