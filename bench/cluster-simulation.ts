import { calculated } from './cluster-simulation/calculated.ts'
import { printHead, printLoss, printOutage, printRest, printRevocation } from './cluster-simulation/report.ts'
import { atRest, loss, losses, outage, revocation } from './cluster-simulation/scenarios.ts'
import { SimulatedCluster } from './cluster-simulation/simulated-cluster.ts'
import type { SimulationSettings } from './cluster-simulation/surroundings.ts'

/**
 * Many nodes and many cells: the code of `src/cluster` on a clock, a bucket and a PostgreSQL that are simulated, beside what
 * docs/cluster.md calculates. Cells are counts per range; clients, files and the content of logs are none.
 */
const setting = (name: string, value: number) => Number(process.env[`CELLSTORE_BENCH_${name}`] ?? value)

const settings: SimulationSettings = {
  nodes: setting('NODES', 1_000),
  cells: setting('CELLS', 10_000_000),
  busyShare: setting('BUSY_SHARE', 0.01),
  ttlMs: setting('TTL_MS', 6_000),
  lagMs: 10_000,
  postgresMs: setting('POSTGRES_MS', 2),
  bucketMs: setting('LATENCY_MS', 30),
  peerMs: setting('PEER_MS', 1),
  seed: setting('SEED', 1),
}
const RECOVERED_PER_S = setting('RECOVERED_PER_S', 35)
const REST_S = setting('SECONDS', 65)
const OUTAGE_S = setting('OUTAGE_SECONDS', 60)
const SETTLE_MS = 20_000
/** One after the other: when a node beat last is chance. */
const SINGLE_LOSSES = 5

const begin = performance.now()
console.log(
  `${settings.nodes} nodes, ${settings.cells.toLocaleString('en')} cells, seed ${settings.seed}; a PostgreSQL of ${settings.postgresMs} ms, a bucket of ${settings.bucketMs} ms, nodes ${settings.peerMs} ms apart`,
)
printHead()
for (const lagMs of [1_000, 10_000]) {
  const cluster = await started({ ...settings, lagMs })
  printRest(await atRest(cluster, REST_S), calculated({ ...settings, lagMs }), lagMs)
  if (lagMs !== settings.lagMs) continue
  printRevocation(await revocation(cluster), settings)
  const many = Math.min(10, Math.floor(settings.nodes / 4))
  printLoss(
    await losses(cluster, Math.min(SINGLE_LOSSES, Math.ceil(settings.nodes / 4)), SETTLE_MS),
    calculated(settings),
    1,
    RECOVERED_PER_S,
  )
  const left = { ...settings, nodes: cluster.alive.length }
  printLoss(await loss(cluster, many), calculated(left, many), many, RECOVERED_PER_S)
  await cluster.clock.pass(SETTLE_MS)
  for (const kind of ['silent', 'refusing'] as const) {
    printOutage(await outage(cluster, kind, OUTAGE_S), kind, OUTAGE_S, cluster.alive.length)
    await cluster.clock.pass(SETTLE_MS)
  }
}
console.log(`\n${((performance.now() - begin) / 1_000).toFixed(0)} s of this machine.`)

async function started(of: SimulationSettings): Promise<SimulatedCluster> {
  const cluster = new SimulatedCluster(of)
  await cluster.start()
  await cluster.clock.pass(SETTLE_MS)
  return cluster
}
