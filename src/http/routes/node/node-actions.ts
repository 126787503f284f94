import { CellError } from '../../../errors.ts'
import type { HealthDocument, ReadyDocument } from '../../answers/status-answers.ts'
import { type Answer, accountsAction, type Call, ok, openAction, ownerAction } from '../../core/action.ts'
import type { NodeView } from './node-view.ts'

/** The process serves. */
export const healthz = openAction(() => ok({ status: 'ok' } satisfies HealthDocument))

/** Any id will do: what is asked is whether the catalog answers. */
const NO_CELL = '00000000-0000-0000-0000-000000000000'

/**
 * The catalog is open. The object store plays no part: without it, cells are still read and written. Nor do damaged backups,
 * but a monitor must see how many cells have them. Anyone may ask, so no cell is named.
 */
export const readyz = openAction(({ context: { store, cluster } }) => {
  const why = cluster?.notReady()
  if (why !== undefined) throw new CellError('not_serving', why)
  store.findCell(NO_CELL)
  const damaged = store.verifications?.damagedCount() ?? 0
  return ok({ status: 'ready', damaged_backups: damaged } satisfies ReadyDocument)
})

/** Describes the whole interface. */
export const getOpenApi = openAction(async ({ context, request }) => ({
  status: 200,
  json: await context.openApi(request.mount),
}))

/** Of the counts and sizes of cells in `GET /v1/status`: a page that shows them asks every few seconds. */
const CENSUS_AGE_MS = 15_000
const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8'

/** How the node is, for its owner alone: it names cells of all accounts. */
export const getStatus = ownerAction(async (call) => ok(await nodeOf(call).status()))

/** The same for a key with the access `owner`. */
export const getNodeStatus = accountsAction(async ({ context: { node } }) => {
  if (node === undefined)
    throw new CellError(
      'not_found',
      'Only `cellstore serve` has a status; this server is a program of its own.',
    )
  return ok(await node.status(CENSUS_AGE_MS))
})

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
