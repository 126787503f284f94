import { type Assignment, firstAssignment, RANGES } from '../../catalog/assignment/assignment.ts'
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
