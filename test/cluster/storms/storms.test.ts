import { expect, test } from 'vitest'
import { ClusterStorm } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { seededRandom } from '../../support/seed.ts'

const STORMS = countOf('CELLSTORE_CLUSTER_STORMS')
const STEPS = 8
/** `--max-lag` of the nodes, and what a busy machine may be late. */
const LAG_MS = { told: 3_000, late: 5_000 }

test.skipIf(!hasPostgres).each([
  {
    durability: 'remote',
    promise: 'lose nothing that was acknowledged',
    steps: STEPS,
  },
  {
    durability: 'full',
    promise: 'lose only what was acknowledged within the lag before a node was lost, or while it was',
    lagMs: LAG_MS.told + LAG_MS.late,
    steps: STEPS / 2,
  },
])(
  `Three nodes in durability $durability under kills, sleeps, cut links and a PostgreSQL that dies or forgets: they $promise, serve nothing stale, and admit no revoked key: ${STORMS} storms (C1 to C9)`,
  { timeout: 180_000 + STORMS * 300_000 },
  async ({ durability, lagMs, steps }) => {
    const random = seededRandom()
    for (let i = 0; i < STORMS; i++) {
      const cluster = await TestCluster.start(3, [
        ...['--durability', durability],
        ...(lagMs === undefined ? [] : ['--max-lag', `${LAG_MS.told / 1_000}s`]),
      ])
      try {
        const storm = new ClusterStorm(cluster, random)
        await storm.run({ cells: 4, steps, ...(lagMs === undefined ? {} : { lagMs }) })
        console.info(JSON.stringify({ durability, ...storm.counts, silenceMs: storm.silences }))
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
