import { CellError } from '../errors.ts'
import { type Answer, type Call, ok, openAction, ownerAction } from './action.ts'
import type { NodeView } from './node-view.ts'

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8'

/** How the node is, for its owner alone: it names cells of all accounts. */
export const getStatus = ownerAction(async (call) => ok(await nodeOf(call).status()))

export const ownerMetrics = ownerAction(metrics)

/** Only for a port of its own: see `METRICS`. */
export const openMetrics = openAction(metrics)

async function metrics(call: Call): Promise<Answer> {
  return { status: 200, json: await nodeOf(call).metrics(), headers: { 'Content-Type': PROMETHEUS_TEXT } }
}

function nodeOf({ context: { node } }: Call): NodeView {
  if (node !== undefined) return node
  throw new CellError('store_closed', 'No node runs on this store. `cellstore serve` starts one.')
}
