import { SimulatedCluster } from './cluster-simulation/simulated-cluster.ts'
const n = Number(process.argv[2] ?? 20)
const s = { nodes: n, cells: n * 10_000, busyShare: 0.01, ttlMs: 6000, lagMs: 10000, postgresMs: 2, bucketMs: 30, peerMs: 1, seed: 1 }
const t0 = performance.now()
const t = (what: string) => console.log(((performance.now() - t0) / 1000).toFixed(1), 's', c?.clock.monotonic(), what)
let c: SimulatedCluster | undefined
c = new SimulatedCluster(s)
t('made')
await c.start()
t('joined')
const show = (what: string) => { t(what); console.log(' pg', String(c.statements.take())); console.log(' s3', String(c.requests.take())); console.log(' calls', String(c.calls.take())) }
show('start')
await c.clock.pass(30_000)
show('rest')
c.lose([c.nodes[3]!])
await c.clock.passUntil(() => [...c!.losses.values()].every((l) => l.assignedAt !== undefined), 'taken')
show('lost')
console.log([...c.losses])
await c.clock.pass(10_000)
show('after')
console.log(c.nodes.map((x) => x.ownership.ranges.length).join(' ').slice(0, 200))
