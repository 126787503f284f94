import * as z from 'zod'
import { CellError } from '../../../errors.ts'
import { flag, text } from '../../../service/json/fields.ts'
import { type Call, ok, ownerAction, ownerActionWith } from '../../core/action.ts'
import type { ClusterCommands } from '../node/node-view.ts'

export const getCluster = ownerAction(async (call) => ok(await clusterOf(call).status()))

/** Begins to empty a node. */
export const drainNode = ownerActionWith(z.strictObject({ node: text }), async (call, { node }) => {
  await clusterOf(call).drain(node)
  return ok({})
})

/** Begins to level the nodes. */
export const balanceNodes = ownerActionWith(z.strictObject({}), async (call) => {
  await clusterOf(call).balance()
  return ok({})
})

/** Has this node leave; as the last one, it is a node that is alone from its next start on. */
export const leaveCluster = ownerActionWith(
  z.strictObject({ last: flag.optional() }),
  async (call, { last = false }) => {
    await clusterOf(call).leaveFor(last)
    return ok({})
  },
)

function clusterOf({ context: { node } }: Call): ClusterCommands {
  if (node?.cluster !== undefined) return node.cluster
  throw new CellError(
    'invalid_request',
    'This node is alone: it was started without --cluster (CELLSTORE_CLUSTER).',
  )
}
