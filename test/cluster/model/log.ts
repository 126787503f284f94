import { countPut, countVersion } from './leases.ts'
import type { Protocol } from './rules.ts'
import {
  type Assign,
  type Bucket,
  isRunning,
  type Node,
  newestAssign,
  type Step,
  type Version,
  type World,
} from './world.ts'

/** What a range has by the bucket's objects alone: the tenures one after the other, without what is void. */
export function storedHistory(bucket: Bucket, range: number, protocol: Protocol): number[] {
  const { owner, before } = bucket.assigns.at(-1) as Assign
  const tenures = before[range] as Assign['before'][number]
  const present = {
    epoch: owner[range] as number,
    logs: Number.POSITIVE_INFINITY,
    versions: Number.POSITIVE_INFINITY,
  }
  let history: number[] = []
  for (const [at, tenure] of [...tenures, present].entries()) {
    const { epoch } = tenure
    const earlier = tenures.findLast((other, place) => place < at && other.epoch === epoch)
    const begin = protocol.has('each tenure has a beginning') ? earlier : undefined
    const logs = protocol.has('each tenure has an end') ? tenure.logs : Number.POSITIVE_INFINITY
    const versions = protocol.has('versions have an end') ? tenure.versions : Number.POSITIVE_INFINITY
    const newest = bucket.versions[epoch]
      ?.slice(begin?.versions ?? 0, versions)
      .findLast((version) => version.range === range)
    if (newest !== undefined) history = [...newest.content]
    const objects = bucket.logs[epoch]?.slice(newest?.upTo ?? begin?.logs ?? 0, logs) ?? []
    for (const object of objects) if (object?.range === range) history.push(object.value)
  }
  return history
}

/** What a read of the range shows, if the node can answer. */
export function visible({ data, put }: Node, range: number, protocol: Protocol): readonly number[] {
  const counted = data[range] ?? []
  return put?.range === range && !protocol.has('reads show what counts') ? [...counted, put.value] : counted
}

/** Appends, versions, and the removal of what these cover. */
export function logSteps(world: World, protocol: Protocol): Step[] {
  return world.nodes.flatMap((node, index) =>
    isRunning(node)
      ? [
          ...appendSteps(world, node, index, protocol),
          ...versionSteps(world, node, index, protocol),
          ...removalSteps(world, node, index, protocol),
        ]
      : [],
  )
}

/** Whether the node admits requests for the range. */
export function serves({ data, move }: Node, range: number, protocol: Protocol): boolean {
  const isMoving = move?.range === range && protocol.has('a moving range stops')
  return data[range] != null && !isMoving
}

function appendSteps({ left, bucket }: World, node: Node, index: number, protocol: Protocol): Step[] {
  const steps: Step[] = []
  const stored = bucket.logs[node.epoch]?.length ?? 0
  if (node.put !== null && node.put.number <= stored && !protocol.has('look after the PUT'))
    steps.push([
      `node ${index} counts its append`,
      (world) => countPut(world, world.nodes[index] as Node, protocol),
    ])
  if (left.appends === 0 || node.put !== null) return steps
  node.data.forEach((_, range) => {
    if (!serves(node, range, protocol)) return
    const append = (world: World) => {
      world.left.appends--
      const value = ++world.lastValue
      const { epoch } = node
      ;(world.nodes[index] as Node).put = { range, value, number: stored + 1 }
      world.network.push({ put: 'log', epoch, number: stored + 1, object: { range, value } })
    }
    steps.push([`node ${index} appends to range ${range}, and sends log object ${stored + 1}`, append])
  })
  return steps
}

/** A version may have what the log has not yet, as a copy of the file does. */
function versionSteps({ left, bucket }: World, node: Node, index: number, protocol: Protocol): Step[] {
  const steps: Step[] = []
  const stored = bucket.versions[node.epoch]?.length ?? 0
  if (node.version !== null && node.version.number <= stored && !protocol.has('covers count'))
    steps.push([`node ${index} counts its version`, ({ nodes }) => countVersion(nodes[index] as Node)])
  if (left.versions === 0 || node.version !== null) return steps
  node.data.forEach((data, range) => {
    if (data === null || !serves(node, range, protocol)) return
    const pending = node.put?.range === range ? [node.put.value] : []
    const upTo =
      (bucket.logs[node.epoch]?.length ?? 0) +
      (node.put && node.put.number > (bucket.logs[node.epoch]?.length ?? 0) ? 1 : 0)
    const send = (world: World) => {
      world.left.versions--
      ;(world.nodes[index] as Node).version = { range, number: stored + 1, upTo }
      const version: Version = { range, content: [...data, ...pending], upTo }
      world.network.push({ put: 'version', epoch: node.epoch, version })
    }
    steps.push([`node ${index} sends a version of range ${range}`, send])
  })
  return steps
}

function removalSteps(world: World, node: Node, index: number, protocol: Protocol): Step[] {
  const { bucket } = world
  const steps: Step[] = []
  const remove = (epoch: number, numbers: number[]) => {
    const isUnderWay = world.network.some((request) => 'remove' in request && request.epoch === epoch)
    if (numbers.length === 0 || isUnderWay) return
    steps.push([
      `node ${index} sends the removal of log objects of epoch ${epoch}`,
      ({ network }) => network.push({ remove: 'log', epoch, numbers }),
    ])
  }
  if (
    world.left.versions === 0 &&
    node.covered.every((upTo) => upTo === 0) &&
    protocol.has('remove what is covered')
  )
    return []
  if (bucket.versions.every((versions) => versions.length === 0)) return []
  const isCovered = (range: number, at: number) =>
    at < (node.covered[range] ?? 0) || (!protocol.has('remove what is covered') && node.data[range] !== null)
  remove(
    node.epoch,
    numbersOf(bucket, node.epoch, (range, at) => isCovered(range, at)),
  )
  for (const epoch of earlierOwners(world, node)) {
    const ranges = rangesBegunBy(world, epoch)
    const required = protocol.has('all ranges are covered')
      ? ranges
      : ranges.filter((range) => node.data[range] != null)
    if (required.every((range) => hasNewOwnersVersion(world, range, protocol)))
      remove(
        epoch,
        numbersOf(bucket, epoch, () => true),
      )
  }
  return steps
}

function numbersOf(
  bucket: Bucket,
  epoch: number,
  isRemoved: (range: number, at: number) => boolean,
): number[] {
  const log = bucket.logs[epoch] ?? []
  return log.flatMap((object, at) => (object !== null && isRemoved(object.range, at) ? [at] : []))
}

/** The epochs whose ranges this node has now, or some of them. */
function earlierOwners(world: World, node: Node): number[] {
  const { owner, before } = newestAssign(world)
  const tenures = before.flatMap((tenures, range) =>
    owner[range] === node.epoch && node.data[range] ? tenures : [],
  )
  return [...new Set(tenures.map(({ epoch }) => epoch))].filter((epoch) => world.bucket.ended[epoch])
}

function rangesBegunBy(world: World, epoch: number): number[] {
  const { owner, before } = newestAssign(world)
  return before.flatMap((tenures, range) =>
    owner[range] === epoch || tenures.some((tenure) => tenure.epoch === epoch) ? [range] : [],
  )
}

/** Anybody can see it: the version is there, and then the fence of the one that put it is not. */
function hasNewOwnersVersion(world: World, range: number, protocol: Protocol): boolean {
  const owner = newestAssign(world).owner[range] as number
  const isThere = world.bucket.versions[owner]?.some((version) => version.range === range) === true
  return isThere && (!world.bucket.ended[owner] || !protocol.has('covers count'))
}
