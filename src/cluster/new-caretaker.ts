import os from 'node:os'
import { placeHere } from '../backup/fence/holder-record.ts'
import { scopedTo } from '../backup/fence/scoped-object-store.ts'
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
  /** As it is, without a prefix. */
  bucket: ObjectStore
  storeId: string
  dataDir: string
  /** Whether this node may get ranges of lost nodes. */
  isHeir(): boolean
  nodes(): readonly NodeRow[]
  /** The ranges of a lost node have other owners. @param published once the catalog says so */
  reassigned(published: Promise<void>): void
  clock: Clock
  random: () => number
  log: Log
}

/** Joins the watch over other nodes to the assignment of what lost ones had. */
export function newCaretaker(parts: CaretakerOfNode): Caretaker {
  const { self, table, peers, times, ownership, mover, handovers, clock, random, log } = parts
  const rowOf = (node: string) => parts.nodes().find(({ id }) => id === node)
  const ofPrefix = (prefix: string) => {
    const scoped = scopedTo(parts.bucket, prefix, () => parts.storeId)
    return new ForeignPrefix(scoped, placeHere(os.hostname(), parts.dataDir), clock)
  }
  const takeOver = new TakeOver({
    table,
    times,
    clock,
    log,
    prefixOf: ({ prefix }) => ofPrefix(prefix),
    answers: async (node) => (await peers.pingNode(node))?.serving === true,
    reassign: async ({ node, ...end }) => {
      const row = rowOf(node)
      const prefix = row?.prefix ?? ownership.assignment?.prefixes[node] ?? `nodes/${node}/`
      const heirs = await handovers.heirs(parts.isHeir(), row?.busyCells ?? 0)
      const { published } = await mover.takeOver({ id: node, prefix }, end, heirs)
      parts.reassigned(published)
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
