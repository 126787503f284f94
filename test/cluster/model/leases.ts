import type { Protocol } from './rules.ts'
import {
  age,
  type Elapsed,
  isRunning,
  L,
  type Node,
  newProcess,
  type Step,
  TTL,
  type World,
} from './world.ts'

/** The right to serve: PostgreSQL or the bucket vouches for the node, and none of its clocks says that this has ended. */
export function hasLease(node: Node, protocol: Protocol): boolean {
  const isVouchedFor =
    node.isSure || lasts(node.pgLease, TTL, protocol) || lasts(node.bucketLease, L, protocol)
  return isRunning(node) && node.joined && isVouchedFor
}

const CLOCKS = ['monotonic clock', 'wall clock', 'boot clock'] as const

function lasts(since: Elapsed | null, ticks: number, protocol: Protocol): boolean {
  return since !== null && CLOCKS.every((clock, at) => !protocol.has(clock) || (since[at] as number) < ticks)
}

/** Of two worlds that differ in nothing that can matter, makes one. */
export function forgetWhatIsOver({ nodes }: World, protocol: Protocol): void {
  nodes.forEach((node, index) => {
    if (node.ended) nodes[index] = { ...newProcess(node.epoch, node.catalog, node.data.length), ended: true }
    if (!lasts(node.pgLease, TTL, protocol)) node.pgLease = null
    if (!lasts(node.bucketLease, L, protocol)) node.bucketLease = null
  })
}

export function canAnswer(node: Node, protocol: Protocol): boolean {
  return hasLease(node, protocol) || (isRunning(node) && node.admitted)
}

/** Beats, looks, and the passing of time. */
export function leaseSteps(world: World, protocol: Protocol): Step[] {
  const steps: Step[] = []
  world.nodes.forEach((node, index) => {
    if (!isRunning(node)) return
    const name = `node ${index}`
    if (!protocol.has('lease after the work') && !node.admitted && hasLease(node, protocol))
      steps.push([
        `${name} checks its lease before the work`,
        ({ nodes }) => (at(nodes, index).admitted = true),
      ])
    steps.push(...beatSteps(world, node, index, protocol), ...lookSteps(world, node, index, protocol))
  })
  return [...steps, ...timeSteps(world)]
}

function beatArrives({ pg }: World, node: Node, protocol: Protocol): void {
  const row = pg.rows[node.epoch]
  const ok = row != null && (row.state === 'alive' || !protocol.has('beats name the living'))
  if (ok) row.counter++
  if (node.beat !== null) node.beat.saw = { ok, incarnation: pg.incarnation }
}

function beatSteps({ left }: World, node: Node, index: number, protocol: Protocol): Step[] {
  const { beat } = node
  if (beat === null) {
    if (left.beats === 0 || !node.joined || node.isSure) return []
    const begin = (world: World) => {
      world.left.beats--
      const node = at(world.nodes, index)
      node.beat = { since: [0, 0, 0], saw: null }
      if (!protocol.delays) beatArrives(world, node, protocol)
    }
    return [[`node ${index} sends a beat`, begin]]
  }
  if (beat.saw === null)
    return [
      [
        `PostgreSQL gets the beat of node ${index}`,
        (world) => beatArrives(world, at(world.nodes, index), protocol),
      ],
    ]
  const { ok, incarnation } = beat.saw
  const answer = ({ nodes }: World) => {
    const node = at(nodes, index)
    node.beat = null
    if (incarnation !== node.incarnation) {
      node.incarnation = incarnation
      node.trusted = !protocol.has('look after an incarnation')
    }
    if (ok && node.trusted) node.pgLease = protocol.has('lease from the start') ? beat.since : [0, 0, 0]
  }
  return [[`node ${index} gets the answer of its beat`, answer]]
}

function lookArrives({ bucket }: World, node: Node): void {
  if (node.look !== null) node.look.saw = bucket.ended[node.epoch] ? 'ended' : 'clean'
}

function lookSteps({ left, bucket }: World, node: Node, index: number, protocol: Protocol): Step[] {
  const { look } = node
  if (look === null) {
    const put = putAnswered(node, bucket.logs[node.epoch]?.length ?? 0, protocol)
    const version = versionAnswered(node, bucket.versions[node.epoch]?.length ?? 0, protocol)
    const isFree = put > 0 || version > 0
    if ((left.looks === 0 || node.isSure) && !isFree) return []
    const begin = (world: World) => {
      if (!isFree) world.left.looks--
      const node = at(world.nodes, index)
      node.look = { since: [0, 0, 0], saw: null, incarnation: node.incarnation, put, version }
      if (!protocol.delays) lookArrives(world, node)
    }
    return [[`node ${index} looks at its fence`, begin]]
  }
  if (look.saw === null)
    return [
      [`the look of node ${index} reaches the bucket`, (world) => lookArrives(world, at(world.nodes, index))],
    ]
  const answer = (world: World) => {
    const node = at(world.nodes, index)
    node.look = null
    if (look.saw === 'ended') node.ended = true
    else {
      node.bucketLease = protocol.has('lease from the start') ? look.since : [0, 0, 0]
      if (look.incarnation === node.incarnation || !protocol.has('look begins after it')) node.trusted = true
      if (look.put > 0 && look.put <= (world.bucket.logs[node.epoch]?.length ?? 0))
        countPut(world, node, protocol)
      if (look.version > 0 && look.version <= (world.bucket.versions[node.epoch]?.length ?? 0))
        countVersion(node)
    }
  }
  return [[`node ${index} gets the answer of its look (${look.saw})`, answer]]
}

/** @returns the number of the log object that a look which begins now may count */
function putAnswered({ put }: Node, stored: number, protocol: Protocol): number {
  if (put === null || (put.number > stored && protocol.has('look begins after the PUT'))) return 0
  return put.number
}

function versionAnswered({ version }: Node, stored: number, protocol: Protocol): number {
  if (version === null || (version.number > stored && protocol.has('look begins after the PUT'))) return 0
  return version.number
}

/** The append is acknowledged, if there is a lease. */
export function countPut(world: World, node: Node, protocol: Protocol): void {
  const { put } = node
  node.put = null
  const data = put && node.data[put.range]
  if (!put || !data) return
  const longer = [...data, put.value]
  node.data[put.range] = longer
  if (canAnswer(node, protocol)) world.exposed[put.range] = longer
}

export function countVersion(node: Node): void {
  const { version } = node
  if (version !== null) node.covered[version.range] = version.upTo
  node.version = null
}

/** Each node has a clock that never stands still: which one, nobody knows. */
const CLOCKS_STAND: [name: string, by: Elapsed][] = [
  ['only its monotonic clock goes', [1, 0, 0]],
  ['only its wall clock goes', [0, 1, 0]],
  ['only its boot clock goes', [0, 0, 1]],
]
const WALL_CLOCK_JUMPS: Elapsed = [0, 2, 0]

function timeSteps({ left, nodes }: World): Step[] {
  const pass = (faulty: number, by: Elapsed) => (world: World) => {
    world.left.ticks--
    world.nodes.forEach((node, index) => {
      age(node, index === faulty ? by : [1, 1, 1])
    })
    if (faulty >= 0) world.left.clockFaults--
  }
  const jump = (index: number) => (world: World) => {
    world.left.clockFaults--
    age(at(world.nodes, index), WALL_CLOCK_JUMPS)
  }
  const faulty = left.clockFaults === 0 ? [] : nodes.flatMap((node, index) => (node.up ? [index] : []))
  const jumps = faulty.map((index): Step => [`the wall clock of node ${index} jumps ahead`, jump(index)])
  if (left.ticks === 0) return jumps
  const stands = faulty.flatMap((index) =>
    CLOCKS_STAND.map(([name, by]): Step => [`a tick, at node ${index} ${name}`, pass(index, by)]),
  )
  return [['a tick', pass(-1, [1, 1, 1])], ...stands, ...jumps]
}

function at(nodes: Node[], index: number): Node {
  return nodes[index] as Node
}
