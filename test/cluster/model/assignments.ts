import { storedHistory } from './log.ts'
import type { Protocol } from './rules.ts'
import {
  type Assign,
  isRunning,
  type Node,
  newestAssign,
  newProcess,
  type Request,
  type Step,
  type World,
} from './world.ts'

/** Planned moves, what nodes learn of `assign/<n>`, and the requests that reach the bucket. */
export function assignmentSteps(world: World, protocol: Protocol): Step[] {
  const steps: Step[] = arrivals(world, protocol)
  world.nodes.forEach((node, index) => {
    if (!isRunning(node) || !node.joined) return
    if (node.knows < world.bucket.assigns.length)
      steps.push([`node ${index} reads assign ${world.bucket.assigns.length - 1}`, learn(index, protocol)])
    steps.push(...moveSteps(world, node, index, protocol))
    // A PUT of its log comes to an earlier epoch then: see the rule of the fence.
    if (world.left.restarts > 0 && node.put === null && node.version === null)
      steps.push([`node ${index} starts again`, restart(index, protocol)])
  })
  return steps
}

function restart(index: number, protocol: Protocol) {
  return (world: World) => {
    world.left.restarts--
    const { epoch, catalog, data, knows, covered, isSure } = world.nodes[index] as Node
    const node = { ...newProcess(epoch, catalog, data.length), joined: true, data, knows, covered, isSure }
    world.nodes[index] = node
    learn(index, protocol)(world)
    const range = node.data.findIndex((each) => each !== null)
    if (range < 0 || !protocol.has('a start takes a number')) return
    const number = world.bucket.assigns.length
    node.move = { range, to: epoch, phase: 'taken back', number }
    world.network.push({ put: 'assign', number, assign: newestAssign(world) })
  }
}

function learn(index: number, protocol: Protocol) {
  return (world: World) => {
    const node = world.nodes[index] as Node
    const known = world.bucket.assigns[node.knows - 1]
    const { owner, before } = newestAssign(world)
    node.knows = world.bucket.assigns.length
    node.data = node.data.map((data, range) => {
      if (owner[range] !== node.epoch) return null
      const isSameTenure = known?.before[range]?.length === before[range]?.length
      const isKept = isSameTenure || !protocol.has('data of one tenure')
      return isKept && data !== null ? data : storedHistory(world.bucket, range, protocol)
    })
    if (node.move !== null && node.move.number < node.knows) node.move = null
  }
}

function moveSteps(world: World, node: Node, index: number, protocol: Protocol): Step[] {
  const steps: Step[] = []
  const { move } = node
  const here = (world: World) => world.nodes[index] as Node
  if (move === null) {
    if (world.left.moves === 0) return []
    const others = world.nodes.filter((other) => other !== node && isRunning(other) && other.joined)
    node.data.forEach((data, range) => {
      if (data === null) return
      for (const { epoch: to } of others)
        steps.push([
          `node ${index} stops range ${range}, which is to move to epoch ${to}`,
          (world) => {
            world.left.moves--
            here(world).move = { range, to, phase: 'stopped', number: Number.MAX_SAFE_INTEGER }
          },
        ])
    })
    return steps
  }
  const { range, to, phase, number } = move
  const mayTellEnd = (node.put === null && node.version === null) || !protocol.has('wait for own PUTs')
  const { length } = world.bucket.assigns
  const isOwner = newestAssign(world).owner[range] === node.epoch
  const isOpen = !world.bucket.ended[to] || !protocol.has('no range to the ended')
  if (phase === 'stopped' && mayTellEnd && isOwner && isOpen)
    steps.push([
      `node ${index} sends assign ${length} (range ${range} to epoch ${to})`,
      (world) => {
        here(world).move = { range, to, phase: 'sent', number: length }
        world.network.push({ put: 'assign', number: length, assign: moved(world, node.epoch, range, to) })
      },
    ])
  if (phase === 'sent' && length <= number)
    steps.push(
      protocol.has('a move is taken back')
        ? [
            `node ${index} has no answer: it sends assign ${number} itself (all stays)`,
            (world) => {
              here(world).move = { range, to, phase: 'taken back', number }
              world.network.push({ put: 'assign', number, assign: newestAssign(world) })
            },
          ]
        : [
            `node ${index} has no answer: it serves range ${range} again`,
            (world) => (here(world).move = null),
          ],
    )
  return steps
}

function moved(world: World, epoch: number, range: number, to: number): Assign {
  const { owner, before } = newestAssign(world)
  const { logs, versions } = world.bucket
  const tenure = { epoch, logs: logs[epoch]?.length ?? 0, versions: versions[epoch]?.length ?? 0 }
  return {
    owner: owner.with(range, to),
    before: before.with(range, [...(before[range] ?? []), tenure]),
  }
}

function arrivals({ network, bucket }: World, protocol: Protocol): Step[] {
  return network.flatMap((request, at): Step[] => {
    // Numbers have no gaps: a node sends the next one after the answer for the one before.
    if ('put' in request && request.put === 'assign' && request.number > bucket.assigns.length) return []
    const arrive = (world: World) => {
      world.network.splice(at, 1)
      carryOut(world, request, protocol)
    }
    return [[`the bucket gets ${describe(request)}`, arrive]]
  })
}

function carryOut(world: World, request: Request, protocol: Protocol): void {
  const { bucket, network } = world
  if ('remove' in request) {
    for (const number of request.numbers) (bucket.logs[request.epoch] as null[])[number] = null
  } else if (request.put === 'log') {
    bucket.logs[request.epoch]?.push(request.object)
  } else if (request.put === 'version') {
    bucket.versions[request.epoch]?.push(request.version)
  } else if (request.number === bucket.assigns.length || !protocol.has('assign is create-only')) {
    bucket.assigns[request.number] = request.assign
  } else if (!protocol.has('derive again')) {
    network.push({ ...request, number: bucket.assigns.length })
  }
}

function describe(request: Request): string {
  if ('remove' in request) return `the removal of log objects of epoch ${request.epoch}`
  if (request.put === 'log') return `log object ${request.number} of epoch ${request.epoch}`
  if (request.put === 'version') return `a version of epoch ${request.epoch}`
  return `assign ${request.number} (ranges to epochs ${request.assign.owner.join(', ')})`
}
