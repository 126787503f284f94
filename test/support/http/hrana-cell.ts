import type { ServeFlags } from '../../../src/cli/serve/serve-flags.ts'
import { ObservedNode } from '../observed-node.ts'

/** Where a node runs its cells. */
export const PLACES: [place: string, workers: number][] = [
  ['in the node’s own process', 0],
  ['in workers', 1],
]

/** A new cell of a node that serves, as a client of Hrana has it. */
export interface HranaCell {
  node: ObservedNode
  id: string
  /** As an application has it: with a slash at its end. */
  url: string
  key: string
}

export async function serveCell(workers: number, flags: Partial<ServeFlags> = {}): Promise<HranaCell> {
  const node = await ObservedNode.start(workers, flags)
  return { node, key: node.key, ...(await newCell(node)) }
}

export async function newCell(node: ObservedNode, name?: string): Promise<{ id: string; url: string }> {
  const { body } = await node.request('POST', '/v1/databases', name === undefined ? {} : { name })
  const id = body['id'] as string
  return { id, url: `${node.address}/v1/databases/${id}/` }
}
