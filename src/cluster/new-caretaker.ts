import type { HolderPlace } from '../backup/fence/holder-record.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { ClusterOwnership } from './assignment/cluster-ownership.ts'
import type { Handovers } from './assignment/handovers.ts'
import type { Mover } from './assignment/mover.ts'
import { Caretaker } from './membership/caretaker.ts'
import { ForeignPrefix } from './membership/foreign-prefix.ts'
import type { LeaseTimes } from './membership/lease.ts'
import type { NodeRow, NodeTable } from './membership/node-table.ts'
import { TakeOver } from './membership/take-over.ts'
import type { Peers } from './peers.ts'

interface CaretakerOfNode {
  self: string
  table: NodeTable
  peers: Peers
  times: LeaseTimes
  ownership: ClusterOwnership
  mover: Mover
  handovers: Handovers
  /** The objects of the node with this prefix. */
  scoped(prefix: string): ObjectStore
  /** Where this node runs. */
  here: HolderPlace
  /** Whether this node may get ranges of lost nodes. */
  isHeir(): boolean
  nodes(): readonly NodeRow[]
  /** A node was taken over. */
  taken(node: string): void
  clock: Clock
  random: () => number
  log: Log
}

/** Joins the watch over other nodes to the assignment of what lost ones had. */
export function newCaretaker(parts: CaretakerOfNode): Caretaker {
  const { self, table, peers, times, ownership, mover, handovers, clock, random, log } = parts
  const prefixOf = (node: string) =>
    parts.nodes().find(({ id }) => id === node)?.prefix ?? ownership.assignment?.prefixes[node]
  const takeOver = new TakeOver({
    table,
    times,
    clock,
    log,
    prefixOf: ({ prefix }) => new ForeignPrefix(parts.scoped(prefix), parts.here, clock),
    answers: async (node) => (await peers.pingNode(node))?.serving === true,
    reassign: async ({ node, ...end }) => {
      const lost = { id: node, prefix: prefixOf(node) ?? `nodes/${node}/` }
      await mover.takeOver(lost, end, await handovers.heirs(parts.isHeir()))
      parts.taken(node)
    },
  })
  return new Caretaker({
    self,
    takeOver,
    times,
    clock,
    log,
    random,
    assignment: () => ownership.assignment,
    latestStamp: () => ownership.nextStampBound(clock.now()),
  })
}
