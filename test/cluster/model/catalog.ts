import type { Protocol } from './rules.ts'
import {
  copyOf,
  isPrefix,
  isRunning,
  L,
  type Node,
  newProcess,
  type Postgres,
  type Row,
  type Step,
  type World,
} from './world.ts'

/** The catalog in PostgreSQL, its replicas, who joins, revocations, and PostgreSQL that forgets. */
export function catalogSteps(world: World, protocol: Protocol): Step[] {
  const steps: Step[] = forgetSteps(world)
  world.nodes.forEach((node, index) => {
    const step = (what: string, happen: (world: World, node: Node) => void) =>
      steps.push([`node ${index} ${what}`, (world) => happen(world, world.nodes[index] as Node)])
    if (!node.up) {
      if (world.left.starts > 0) step('starts, and takes the next epoch', start(index))
      return
    }
    if (world.left.crashes > 0 && !node.isSure) step('is killed', crash)
    if (node.ended && world.left.starts > 0) step('starts again, with the next epoch', start(index))
    if (!isRunning(node)) return
    if (!node.joined) joinSteps(world, node, protocol, step)
    else {
      changeSteps(world, node, protocol, step)
      revocationSteps(world, node, protocol, step)
    }
    handInSteps(world, node, protocol, step)
  })
  return steps
}

type Add = (what: string, happen: (world: World, node: Node) => void) => void

function forgetSteps({ saved, left }: World): Step[] {
  if (left.forgets === 0) return []
  if (saved === null)
    return [
      ['(what PostgreSQL commits from here on may be lost)', (world) => (world.saved = copyOf(world).pg)],
    ]
  const forget = (world: World) => {
    const incarnation = world.pg.incarnation + 1
    world.left.forgets--
    const { saved } = world
    world.pg = {
      ...(saved as Postgres),
      rows: (saved as Postgres).rows.map((row) => row && { ...row }),
      incarnation,
    }
    world.saved = null
  }
  return [['PostgreSQL comes back without its last commits', forget]]
}

function crash({ left }: World, node: Node): void {
  left.crashes--
  // Of the memory of a process that is gone, nothing is left that could matter.
  Object.assign(node, { ...newProcess(node.epoch, node.catalog, node.data.length), up: false })
}

/** The directory has the replica still. */
function start(index: number) {
  return ({ bucket, nodes, left }: World) => {
    left.starts--
    const { catalog, data } = nodes[index] as Node
    nodes[index] = newProcess(bucket.ended.length, catalog, data.length)
    bucket.ended.push(false)
    bucket.logs.push([])
    bucket.versions.push([])
  }
}

function joinSteps({ pg }: World, node: Node, protocol: Protocol, add: Add): void {
  const row = pg.rows[node.epoch]
  if (row == null)
    add('makes its row', ({ pg }, { epoch }) => {
      while (pg.rows.length < epoch) pg.rows.push(null)
      pg.rows[epoch] = { state: 'alive', counter: 0, handedIn: -1 }
    })
  const isReconciled = pg.headIncarnation === pg.incarnation || !protocol.has('join a reconciled head')
  const hasCaughtUp = node.incarnation < 0
  if (isReconciled && !hasCaughtUp && (row != null || !protocol.has('row before catch-up')))
    add('catches up with the catalog', ({ pg }, node) => {
      // What its directory has beyond PostgreSQL, others have handed in, or nobody knows of it.
      if (protocol.has('one history')) node.catalog = pg.changes
      else pull(pg, node, protocol)
      node.incarnation = -1
    })
  if (hasCaughtUp && row != null)
    add('has joined', ({ pg }, node) => {
      node.joined = true
      node.incarnation = pg.incarnation
    })
}

/** @returns whether the replica continues what PostgreSQL has, or the other way round */
function agree(pg: Postgres, { catalog }: Node): boolean {
  return isPrefix(catalog, pg.changes) || isPrefix(pg.changes, catalog)
}

function pull({ changes }: Postgres, node: Node, protocol: Protocol): void {
  if (!protocol.has('catalog goes forward')) node.catalog = changes
  else node.catalog = [...node.catalog, ...changes.slice(node.catalog.length)]
}

function changeSteps(world: World, node: Node, protocol: Protocol, add: Add): void {
  const { pg, left } = world
  const isNews = pg.changes.length > node.catalog.length
  const isOther = pg.changes.length < node.catalog.length && !protocol.has('catalog goes forward')
  const mayApply = agree(pg, node) || !protocol.has('one history')
  if ((isNews || isOther) && mayApply)
    add('applies the changes of the catalog', ({ pg }, node) => pull(pg, node, protocol))
  const isReconciled = pg.headIncarnation === pg.incarnation || !protocol.has('only a reconciled head')
  // Under the lock of the head it has applied all that it lacked.
  if (!isReconciled || (protocol.has('one history') && !isPrefix(node.catalog, pg.changes))) return
  const change = (world: World, node: Node) => {
    pull(world.pg, node, protocol)
    const value = ++world.lastValue
    world.pg.changes = [...world.pg.changes, value]
    node.catalog = [...node.catalog, value]
    return value
  }
  if (left.changes > 0)
    add('changes the catalog', (world, node) => {
      world.left.changes--
      change(world, node)
    })
  if (left.revocations > 0 && node.revocation === null)
    add('revokes a key', (world, node) => {
      world.left.revocations--
      const revoked = change(world, node)
      node.revocation = { change: revoked, version: node.catalog.length, waitsFor: null }
    })
}

function revocationSteps(world: World, node: Node, protocol: Protocol, add: Add): void {
  const { catalog } = world.bucket
  const isLonger = node.catalog.length > catalog.length
  // A PUT and a clean look after it.
  const counts = world.bucket.ended[node.epoch] === false
  if (isLonger && counts && (node.revocation !== null || world.left.changes > 0))
    add('has put its catalog into the bucket', ({ bucket }, { catalog }) => (bucket.catalog = catalog))
  const { revocation, epoch } = node
  if (revocation === null) return
  const { change, version, waitsFor } = revocation
  const own = (node: Node) => node.revocation as NonNullable<Node['revocation']>
  if (waitsFor === null) {
    const { changes, headIncarnation, incarnation } = world.pg
    if (protocol.has('head has the change') && !(changes.includes(change) && headIncarnation === incarnation))
      return
    add(
      'reads who must confirm',
      ({ pg }, node) => (own(node).waitsFor = whoMustConfirm(pg.rows, epoch, protocol)),
    )
    return
  }
  for (const other of waitsFor)
    if (hasConfirmed(world, node, other, version, protocol))
      add(`knows that epoch ${other} has confirmed, or serves no longer`, (_, node) => {
        own(node).waitsFor = waitsFor.filter((epoch) => epoch !== other)
      })
  const isStored = catalog.includes(change) || !protocol.has('revocation in the bucket')
  const isConfirmed = waitsFor.length === 0 || !protocol.has('wait for the living')
  if (isConfirmed && isStored)
    add('answers its revocation with 200', ({ revoked }, node) => {
      revoked.push(change)
      node.revocation = null
    })
}

function whoMustConfirm(rows: (Row | null)[], own: number, protocol: Protocol): number[] {
  const living = protocol.has('wait for the dying') ? ['alive', 'dead'] : ['alive']
  return rows.flatMap((row, epoch) =>
    epoch !== own && row !== null && living.includes(row.state) ? [epoch] : [],
  )
}

function hasConfirmed(
  world: World,
  { takeOver }: Node,
  other: number,
  version: number,
  protocol: Protocol,
): boolean {
  const asked = world.nodes.find(({ epoch }) => epoch === other)
  if (asked !== undefined && isRunning(asked) && asked.joined && asked.catalog.length >= version) return true
  if (world.pg.rows[other]?.state === 'gone') return true
  if (takeOver?.epoch !== other) return false
  if (!protocol.has('silent ones are fenced')) return takeOver.phase === 'declared'
  const isDead = !world.nodes.some((node) => node.up && node.epoch === other)
  return takeOver.phase === 'confirmed' && (takeOver.waited[0] >= L || isDead)
}

/** After PostgreSQL has forgotten: each hands in its tail, and the last one makes the head PostgreSQL's again. */
function handInSteps({ pg, bucket }: World, node: Node, protocol: Protocol, add: Add): void {
  if (pg.headIncarnation === pg.incarnation) return
  const row = pg.rows[node.epoch]
  if (row?.state === 'alive' && row.handedIn !== pg.incarnation && agree(pg, node))
    add('hands in what PostgreSQL has lost', ({ pg }, { epoch, catalog }) => {
      pg.changes = [...pg.changes, ...catalog.slice(pg.changes.length)]
      ;(pg.rows[epoch] as Row).handedIn = pg.incarnation
    })
  if (!isComplete(pg, bucket.ended, protocol)) return
  add('makes the head that of PostgreSQL', ({ pg, bucket }) => {
    if (protocol.has('bucket hands in'))
      pg.changes = [...pg.changes, ...bucket.catalog.slice(pg.changes.length)]
    pg.headIncarnation = pg.incarnation
  })
}

function isComplete({ rows, incarnation }: Postgres, ended: boolean[], protocol: Protocol): boolean {
  if (!protocol.has('hand in first')) return true
  const required = protocol.has('hand in for this incarnation') ? incarnation : 0
  const haveHandedIn = rows.every((row) => row?.state !== 'alive' || row.handedIn >= required)
  const areKnown = ended.every((hasEnded, epoch) => hasEnded || rows[epoch] != null)
  return haveHandedIn && (areKnown || !protocol.has('all fences are known'))
}
