import { delay } from '../../src/base/clock.ts'
import type { Counts } from './counts.ts'
import { priceOf } from './simulated-bucket.ts'
import type { SimulatedCluster } from './simulated-cluster.ts'
import type { SimulatedNode } from './simulated-node.ts'

/** What was done, by its kind, in a stretch of time. */
export interface Done {
  seconds: number
  statements: Counts
  requests: Counts
  calls: Counts
}

function take({ statements, requests, calls }: SimulatedCluster, seconds: number): Done {
  return { seconds, statements: statements.take(), requests: requests.take(), calls: calls.take() }
}

/** @returns what the cluster does while nothing happens */
export async function atRest(
  cluster: SimulatedCluster,
  seconds: number,
): Promise<Done & { monthly: number }> {
  take(cluster, 0)
  await cluster.clock.pass(seconds * 1_000)
  const done = take(cluster, seconds)
  return { ...done, monthly: (priceOf(done.requests) / seconds) * 2_592_000 }
}

/** Milliseconds from the moment in which the machines went off. Of several, the last one counts. */
export interface Recovery extends Done {
  declaredMs: number
  fencedMs: number
  assignedMs: number
  knownMs: number
  lostRanges: number
  lostCells: number
  takers: number
  /** Of the taker that got most. */
  cellsOfTaker: number
  /** Whom another node has taken for lost. */
  wronglyEnded: number
}

/** One machine goes off, then the next one, so many in all. @returns the means */
export async function losses(cluster: SimulatedCluster, times: number, pauseMs: number): Promise<Recovery> {
  const all: Recovery[] = []
  for (let i = 0; i < times; i++) {
    all.push(await loss(cluster, 1))
    await cluster.clock.pass(pauseMs)
  }
  const mean = (of: (each: Recovery) => number) => all.reduce((sum, each) => sum + of(each), 0) / times
  return {
    ...(all.at(-1) as Recovery),
    declaredMs: mean((each) => each.declaredMs),
    fencedMs: mean((each) => each.fencedMs),
    assignedMs: mean((each) => each.assignedMs),
    knownMs: mean((each) => each.knownMs),
    lostCells: mean((each) => each.lostCells),
    takers: mean((each) => each.takers),
    cellsOfTaker: mean((each) => each.cellsOfTaker),
    wronglyEnded: all.reduce((sum, each) => sum + each.wronglyEnded, 0),
  }
}

/** Machines go off, at once. */
export async function loss(cluster: SimulatedCluster, count: number): Promise<Recovery> {
  const { clock } = cluster
  take(cluster, 0)
  // Of one that has nothing, there is nothing to take over.
  const owners = cluster.alive.filter(({ ownership }) => ownership.ranges.length > 0)
  const lost = owners.filter((_, i) => i % Math.floor(owners.length / count) === 0).slice(0, count)
  const had = new Map(cluster.alive.map((node) => [node, new Set(node.ownership.ranges)]))
  const ranges = new Set(lost.flatMap((node) => [...node.ownership.ranges]))
  const [begin, endedBefore] = [clock.monotonic(), cluster.endedNodes.length]
  cluster.lose(lost)
  const losses = lost.map(({ id }) => cluster.losses.get(id))
  await clock.passUntil(
    () => losses.every((each) => each?.assignedAt !== undefined),
    'the ranges are assigned',
    120_000,
  )
  await clock.passUntil(() => isKnown(cluster, ranges), 'all nodes know the new owners', 120_000)
  const knownMs = clock.monotonic() - begin
  const gained = cluster.alive.map((node) => gainedBy(cluster, node, ranges, had.get(node)))
  const last = (at: 'declaredAt' | 'fencedAt' | 'assignedAt') =>
    Math.max(...losses.map((each) => (each?.[at] ?? begin) - begin))
  return {
    ...take(cluster, knownMs / 1_000),
    declaredMs: last('declaredAt'),
    fencedMs: last('fencedAt'),
    assignedMs: last('assignedAt'),
    knownMs,
    lostRanges: ranges.size,
    lostCells: [...ranges].reduce((sum, range) => sum + cluster.cellsIn(range), 0),
    takers: gained.filter((cells) => cells > 0).length,
    cellsOfTaker: Math.max(...gained),
    wronglyEnded: cluster.endedNodes.length - endedBefore,
  }
}

/** Whether no node of those that are left takes one that is off for the owner of a range. */
function isKnown(cluster: SimulatedCluster, ranges: ReadonlySet<number>): boolean {
  const off = new Set(cluster.nodes.filter(({ clock }) => clock.isOff).map(({ id }) => id))
  const seen = new Map<number, boolean>()
  const isGood = (node: SimulatedNode) => {
    const { assignment } = node.ownership
    if (assignment === undefined) return false
    const known = seen.get(assignment.n)
    if (known !== undefined) return known
    const good = assignment.ranges.every(
      ({ lo, hi, node: owner }) => !off.has(owner) || !hasOne(ranges, lo, hi),
    )
    seen.set(assignment.n, good)
    return good
  }
  return cluster.alive.every(isGood)
}

function hasOne(ranges: ReadonlySet<number>, lo: number, hi: number): boolean {
  for (let range = lo; range <= hi; range++) if (ranges.has(range)) return true
  return false
}

function gainedBy(
  cluster: SimulatedCluster,
  { ownership }: SimulatedNode,
  lost: ReadonlySet<number>,
  had: ReadonlySet<number> | undefined,
): number {
  const gained = ownership.ranges.filter((range) => lost.has(range) && had?.has(range) !== true)
  return gained.reduce((sum, range) => sum + cluster.cellsIn(range), 0)
}

/** What a PostgreSQL that is away brings about. */
export interface Outage extends Done {
  /** Nodes that had no lease at some moment. */
  withoutLease: number
  /** Nodes that another one has taken for lost. */
  wronglyEnded: number
  /** Milliseconds from its return until each node has beaten. */
  beatenMs: number
  /** Milliseconds from its return until it takes changes of the catalog. */
  changesMs: number
  /** From its return on. */
  after: Done
}

/** @param kind `silent`: the way to it is cut; `refusing`: it is down, and another server takes its place */
export async function outage(
  cluster: SimulatedCluster,
  kind: 'silent' | 'refusing',
  seconds: number,
): Promise<Outage> {
  const { clock, postgres } = cluster
  take(cluster, 0)
  const [alive, endedBefore] = [cluster.alive, cluster.endedNodes.length]
  const withoutLease = new Set<SimulatedNode>()
  const look = () => {
    for (const node of alive) if (!node.lease.isValid()) withoutLease.add(node)
  }
  const passLooking = async (ms: number) => {
    for (let left = ms; left > 0; left -= 250) {
      await clock.pass(250)
      look()
    }
  }
  postgres.outage = kind
  await passLooking(seconds * 1_000)
  const meanwhile = take(cluster, seconds)
  if (kind === 'refusing') postgres.restart()
  postgres.outage = undefined
  const back = clock.monotonic()
  const counters = new Map([...postgres.table.rows].map(([id, { counter }]) => [id, counter]))
  const hasBeaten = () =>
    alive.every(({ id }) => (postgres.table.rows.get(id)?.counter ?? 0) > (counters.get(id) ?? 0))
  const takesChanges = () => postgres.table.incarnation === postgres.table.server
  let beatenMs = 0
  await clock.passUntil(
    () => {
      look()
      if (beatenMs === 0 && hasBeaten()) beatenMs = clock.monotonic() - back
      return beatenMs > 0 && takesChanges()
    },
    'PostgreSQL takes changes again',
    300_000,
  )
  const changesMs = clock.monotonic() - back
  // Whoever takes another one for lost does so within the next times to live.
  await passLooking(3 * cluster.settings.ttlMs)
  return {
    ...meanwhile,
    withoutLease: withoutLease.size,
    wronglyEnded: cluster.endedNodes.length - endedBefore,
    beatenMs,
    changesMs,
    after: take(cluster, (clock.monotonic() - back) / 1_000),
  }
}

/** Milliseconds that a revocation waits for the other nodes. */
export async function revocation(cluster: SimulatedCluster): Promise<Done & { ms: number }> {
  const { clock } = cluster
  const node = cluster.alive[0] as SimulatedNode
  take(cluster, 0)
  const begin = clock.monotonic()
  let ms: number | undefined
  const passed = node.catalog
    .durably(() => node.catalog.setMeta('revoked', String(begin)))
    .then(() => node.barrier.pass(node.catalog.version))
    .then(() => {
      ms = clock.monotonic() - begin
    })
  const late = delay(clock, 60_000).then(() => Promise.reject(new Error('The revocation did not end.')))
  const first = Promise.race([passed, late])
  first.catch(() => {})
  await clock.passUntil(() => ms !== undefined, 'the revocation is answered', 60_000)
  await first
  return { ...take(cluster, (ms ?? 0) / 1_000), ms: ms ?? 0 }
}
