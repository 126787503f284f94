import type { Log } from '../../base/log.ts'
import { CellError } from '../../errors.ts'
import type { Peers } from '../peers.ts'
import type { NodeRow } from './node-table.ts'

/**
 * Another node must be able to call this one back; if none answers, nobody can tell.
 *
 * @throws `invalid_setting` if one answers and does not reach it
 */
export async function assertReachable(
  self: Pick<NodeRow, 'id' | 'address'>,
  { nodes }: { nodes: readonly NodeRow[] },
  peers: Pick<Peers, 'reaches'>,
  log: Log,
): Promise<void> {
  const { id, address } = self
  const others = nodes.filter((node) => node.id !== id && node.state === 'alive')
  for (const other of others) {
    const reached = await peers.reaches(other.address, address, id).catch(() => undefined)
    if (reached === true) return
    if (reached === false) throw unreachable(address, other.address)
  }
  if (others.length > 0)
    log.warn({ address }, 'no other node has answered, so nobody has checked that this one can be reached')
}

/** @param name an id, the beginning of one, or an address @throws `invalid_request` unless one node is called so */
export function memberCalled(name: string, nodes: readonly NodeRow[]): NodeRow {
  const [node, ...others] = nodes.filter(({ id, address }) => id.startsWith(name) || address === name)
  if (node !== undefined && others.length === 0) return node
  const names = nodes.map(({ id, address }) => `${id} (${address})`).join(', ')
  throw new CellError(
    'invalid_request',
    `No node, or more than one, is called that. The nodes are: ${names}.`,
    { field: 'node' },
  )
}

function unreachable(address: string, by: string): CellError {
  return new CellError(
    'invalid_setting',
    `The node at ${by} does not reach this one at ${address}. Set --advertise (CELLSTORE_ADVERTISE) to a URL at which the other nodes do.`,
    { field: 'advertise' },
  )
}
