import { expect, test } from 'vitest'
import { ClusterStorm, clockOf } from '../../support/cluster/storm.ts'
import { TestCluster } from '../../support/cluster/test-cluster.ts'
import { countOf } from '../../support/counts.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { Random } from '../../support/random.ts'
import { SEED } from '../../support/seed.ts'
import { sideBySide } from '../../support/side-by-side.ts'

const STORMS = countOf('CELLSTORE_CLUSTER_STORMS')
const NODES = [3, 3, 4, 5] as const
const BUCKETS = ['s3', 's3', 'folder'] as const
const MAX_LAG = ['--max-lag', '3s']

interface Promised {
  durability: 'remote' | 'full'
  promise: string
  steps: number
}

async function storm(seed: number, { durability, steps }: Promised): Promise<void> {
  const random = new Random(seed)
  const [nodes, bucket] = [random.pick(NODES), random.pick(BUCKETS)]
  // A lost node says by its own clock from when on something may be lost, and its taker by another one until when.
  const isApart = durability === 'remote' && random.chance(0.5)
  const clocksMs = Array.from({ length: nodes }, () => (isApart ? clockOf(random) : 0))
  const flags = ['--durability', durability, ...(durability === 'full' ? MAX_LAG : [])]
  const cluster = await TestCluster.start({ nodes, bucket, flags, clocksMs })
  try {
    const storm = new ClusterStorm(cluster, random)
    try {
      await storm.run({ cells: 4, steps, clocksJump: isApart, loses: durability === 'full' })
    } catch (err) {
      console.info(`seed ${seed}: kept in ${storm.keep()}`)
      throw err
    }
    const drawn = { seed, durability, nodes, bucket, clocks: isApart ? 'apart' : 'as one' }
    console.info(JSON.stringify({ ...drawn, ...storm.counts, silenceMs: storm.silences }))
    if (storm.violations.length > 0) console.info(`seed ${seed}: kept in ${storm.keep()}`)
    expect(storm.violations.slice(0, 10)).toEqual([])
    expect(storm.counts['acknowledged']).toBeGreaterThan(0)
  } finally {
    await cluster.stop()
  }
}

test.skipIf(!hasPostgres).each<Promised>([
  { durability: 'remote', promise: 'lose nothing that was acknowledged', steps: 8 },
  {
    durability: 'full',
    promise: 'lose only what the cluster says that a lost node may have taken along',
    steps: 4,
  },
])(
  `Three to five nodes in durability $durability under kills, sleeps, cut links, clocks that are an hour apart and a PostgreSQL that dies or forgets: they $promise, serve nothing stale, and admit no revoked key: ${STORMS} storms (C1 to C9)`,
  { timeout: 300_000 + STORMS * 300_000 },
  async (promised) => {
    // `CELLSTORE_SEED=<seed> CELLSTORE_CLUSTER_STORMS=1` repeats one.
    const seeds = Array.from({ length: STORMS }, (_, i) => SEED + i)
    await sideBySide(seeds, (seed) => storm(seed, promised))
  },
)
