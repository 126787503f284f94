import type { Protocol } from './rules.ts'
import {
  type Assign,
  isRunning,
  L,
  type Node,
  newestAssign,
  type Row,
  type Step,
  type TakeOver,
  TTL,
  type World,
} from './world.ts'

/** Node T, which watches the others, and takes over one that is silent. */
export function takeOverSteps(world: World, protocol: Protocol): Step[] {
  return world.nodes.flatMap((node, index) => {
    // Who has a row but has not joined may take over: perhaps nobody else lives who could hand in.
    if (!isRunning(node) || world.pg.rows[node.epoch] == null) return []
    const { takeOver } = node
    if (takeOver === null) return beginSteps(world, node, index, protocol)
    return stepsOf(world, index, takeOver, protocol)
  })
}

function beginSteps(world: World, node: Node, index: number, protocol: Protocol): Step[] {
  if (world.left.takeOvers === 0) return []
  return world.bucket.ended.flatMap((_, epoch): Step[] => {
    if (epoch === node.epoch || isDone(world, epoch) || isSure(world, epoch)) return []
    const phase = protocol.has('watch from the answer') ? 'watched' : 'asked'
    const begin = (world: World) => {
      world.left.takeOvers--
      const takeOver = newTakeOver(epoch, phase)
      if (phase === 'watched') watch(world, takeOver)
      ;(world.nodes[index] as Node).takeOver = takeOver
    }
    return [[`node ${index} watches epoch ${epoch}`, begin]]
  })
}

function newTakeOver(epoch: number, phase: TakeOver['phase']): TakeOver {
  return { epoch, phase, incarnation: 0, counter: 0, waited: [0, 0, 0], found: null, number: -1 }
}

/** PostgreSQL answers with the row. */
function watch({ pg }: World, takeOver: TakeOver): void {
  const row = pg.rows[takeOver.epoch]
  takeOver.incarnation = pg.incarnation
  takeOver.counter = row?.counter ?? -1
  takeOver.phase = row == null || row.state === 'alive' ? 'watched' : 'declared'
}

function isDone({ pg, bucket }: World, epoch: number): boolean {
  const { owner } = bucket.assigns.at(-1) as Assign
  return pg.rows[epoch]?.state === 'gone' && !owner.includes(epoch)
}

function isSure({ nodes }: World, epoch: number): boolean {
  return nodes.some((node) => node.epoch === epoch && node.isSure && node.up)
}

/** Its process has ended, or another one of the same directory has followed it. */
function isDead({ nodes }: World, epoch: number): boolean {
  return !nodes.some((node) => node.up && node.epoch === epoch)
}

function stepsOf(world: World, index: number, takeOver: TakeOver, protocol: Protocol): Step[] {
  const { epoch, phase, waited } = takeOver
  const steps: Step[] = []
  const step = (what: string, happen: (world: World, node: Node, takeOver: TakeOver) => void) =>
    steps.push([
      `node ${index} ${what} epoch ${epoch}`,
      (world) => {
        const node = world.nodes[index] as Node
        happen(world, node, node.takeOver as TakeOver)
      },
    ])
  const clock = protocol.has('wait by the monotonic clock') ? 0 : 1
  const isSurelyDead = isDead(world, epoch) || !protocol.has('known to be dead')
  const hasWaited = waited[clock] >= L || isSurelyDead || !protocol.has('wait for L')
  if (phase === 'asked') step('gets the counter of', (world, _, takeOver) => watch(world, takeOver))
  if (phase === 'watched') {
    if (!protocol.has('declare dead'))
      step('declares nothing of', (_world, _, takeOver) => (takeOver.phase = 'declared'))
    else if (waited[clock] >= TTL || isSurelyDead || !protocol.has('watch for TTL'))
      step('declares dead', declareDead(protocol))
    else if (!isUnchanged(world, takeOver, protocol)) step('ends its watch of', giveUp)
  }
  if (phase === 'declared') {
    if (!protocol.has('wait from the answer'))
      step('sends the fence of', (_, __, takeOver) => {
        takeOver.phase = 'fencing'
        takeOver.waited = [0, 0, 0]
      })
    else step('puts the fence of', putFence(protocol))
  }
  if (phase === 'fencing') step('puts the fence of', putFence(protocol))
  if (phase === 'fenced') step('asks PostgreSQL again about', confirm(protocol))
  const mayRead = phase === 'fenced' || phase === 'confirmed' || !protocol.has('read after the fence')
  if (mayRead && takeOver.found === null)
    step('reads where the log ends of', ({ bucket }, _, takeOver) => {
      takeOver.found = {
        logs: bucket.logs[epoch]?.length ?? 0,
        versions: bucket.versions[epoch]?.length ?? 0,
      }
    })
  if (phase !== 'confirmed' || !hasWaited) return steps
  const { found, number } = takeOver
  const { assigns } = world.bucket
  if (!newestAssign(world).owner.includes(epoch)) step('is done with', finish)
  else if (found !== null && number < assigns.length)
    for (const spread of whoTakes(world, index, protocol)) {
      const assign = taken(world, epoch, found, spread)
      const to = [...new Set(spread)].join(' and ')
      step(`sends assign ${assigns.length} (to epoch ${to}) for`, ({ network, bucket }, _, takeOver) => {
        takeOver.number = bucket.assigns.length
        network.push({ put: 'assign', number: takeOver.number, assign })
      })
    }
  return steps
}

function isUnchanged({ pg }: World, { epoch, incarnation, counter }: TakeOver, protocol: Protocol): boolean {
  const row = pg.rows[epoch]
  if (row != null && row.state !== 'alive') return false
  if (protocol.has('watch one incarnation') && pg.incarnation !== incarnation) return false
  return (row?.counter ?? -1) === counter || !protocol.has('compare the counter')
}

function declareDead(protocol: Protocol) {
  return (world: World, node: Node, takeOver: TakeOver) => {
    if (!isUnchanged(world, takeOver, protocol)) return giveUp(world, node)
    const { pg } = world
    const { counter, handedIn } = pg.rows[takeOver.epoch] ?? { counter: 0, handedIn: -1 }
    pg.rows[takeOver.epoch] = { state: 'dead', counter, handedIn }
    takeOver.incarnation = pg.incarnation
    takeOver.phase = 'declared'
  }
}

/** It begins again, if the node is still silent. */
function giveUp(_: World, node: Node): void {
  node.takeOver = null
}

function putFence(protocol: Protocol) {
  return ({ bucket }: World, _: Node, takeOver: TakeOver) => {
    if (protocol.has('own fence')) bucket.ended[takeOver.epoch] = true
    if (takeOver.phase === 'declared') takeOver.waited = [0, 0, 0]
    takeOver.phase = protocol.has('confirm after the fence') ? 'fenced' : 'confirmed'
  }
}

function confirm(protocol: Protocol) {
  return (world: World, node: Node, takeOver: TakeOver) => {
    const row = world.pg.rows[takeOver.epoch]
    const isDeclared = row != null && row.state !== 'alive' && world.pg.incarnation === takeOver.incarnation
    if (isDeclared || !protocol.has('declare dead')) takeOver.phase = 'confirmed'
    else giveUp(world, node)
  }
}

function finish(world: World, node: Node, { epoch, incarnation }: TakeOver): void {
  const row = world.pg.rows[epoch] as Row | null
  if (row?.state === 'dead' && world.pg.incarnation === incarnation) row.state = 'gone'
  giveUp(world, node)
}

/** Who gets the ranges: this node all of them, or another one those after the first. */
function whoTakes(world: World, index: number, protocol: Protocol): number[][] {
  const { epoch } = world.nodes[index] as Node
  const ranges = newestAssign(world).owner.length
  const isOpen = (to: number) => !world.bucket.ended[to] || !protocol.has('no range to the ended')
  const others = world.nodes.filter((node) => isRunning(node) && node.joined && node.epoch !== epoch)
  const split = ranges < 2 ? [] : others.map((other) => [epoch, other.epoch])
  return [Array<number>(ranges).fill(epoch), ...split].filter((to) => to.every(isOpen))
}

function taken(world: World, epoch: number, found: { logs: number; versions: number }, to: number[]): Assign {
  const { owner, before } = newestAssign(world)
  const isTaken = (range: number) => owner[range] === epoch
  return {
    owner: owner.map((current, range) => (isTaken(range) ? (to[range] as number) : current)),
    before: before.map((tenures, range) => (isTaken(range) ? [...tenures, { epoch, ...found }] : tenures)),
  }
}
