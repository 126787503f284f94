import { type Assignment, firstAssignment, RANGES, spansOf } from '../../catalog/assignment/assignment.ts'
import { CellError } from '../../errors.ts'
import type { AssignmentLog } from '../../store/start/assignment-log.ts'
import type { NodeIdentity } from '../../store/start/node-identity.ts'
import type { NodeRow } from '../membership/node-table.ts'
import type { ClusterOwnership } from './cluster-ownership.ts'

/** The first node has everything. @returns what holds now; undefined if that is known already */
export async function assignFirst(
  log: AssignmentLog,
  { nodeId, prefix }: NodeIdentity,
  ownership: ClusterOwnership,
): Promise<Assignment | undefined> {
  for (;;) {
    const newest = (await log.newest(ownership.number)) ?? ownership.assignment
    if (newest?.mode === 'cluster') return newest
    const first: Assignment =
      newest === undefined ? firstAssignment(nodeId, prefix) : { ...newest, n: newest.n + 1, mode: 'cluster' }
    if (await log.put(first)) return first
  }
}

/**
 * A node that begins with ranges takes the next number, and changes nothing. A process before it may have ended while its assignment
 * of a move was on its way: that comes too late now, and voids nothing that is acknowledged from here on (C5).
 *
 * @returns what holds now
 */
export async function assignAgain(
  log: AssignmentLog,
  self: string,
  ownership: ClusterOwnership,
): Promise<Assignment | undefined> {
  for (;;) {
    const newest = (await log.newest(ownership.number)) ?? ownership.assignment
    if (newest === undefined || spansOf(newest, self).length === 0) return newest
    const same = { ...newest, n: newest.n + 1 }
    if (await log.put(same)) return same
  }
}

/** @throws `invalid_request` if there are other nodes, or ranges of lost ones */
export function assertLast(self: string, nodes: readonly NodeRow[], ownership: ClusterOwnership): void {
  const others = nodes.filter(({ id }) => id !== self)
  if (others.length === 0 && ownership.ranges.length === RANGES) return
  const names = others.map(({ address }) => address).join(', ')
  throw new CellError(
    'invalid_request',
    `This is not the last node: there is ${names || 'one that is not taken over yet'}. Stop the others first; each hands over its cells.`,
  )
}

/** From here on the store needs no cluster. */
export async function assignAlone(log: AssignmentLog, ownership: ClusterOwnership): Promise<void> {
  for (;;) {
    const newest = (await log.newest(ownership.number)) ?? ownership.assignment
    if (newest === undefined) throw new CellError('internal', 'There is no assignment.')
    if (newest.mode === 'alone') return
    if (await log.put({ ...newest, n: newest.n + 1, mode: 'alone' })) return
  }
}
