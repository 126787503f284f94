import { isCellId } from '../../base/files/store-paths.ts'
import { CellError } from '../../errors.ts'
import type { CellAnswer, CellOperation } from '../../service/operations.ts'
import { CELL_ROUTES } from '../../service/requests/cell-routes.ts'
import { refuseQuery } from '../../service/requests/query.ts'
import type { JsonBody } from '../body/request-body.ts'
import { type Action, type Answer, type Call, type CellCall, ofCell } from '../core/action.ts'
import { checkIsHere } from '../forwarding/elsewhere.ts'
import { batonIn } from './baton-in.ts'
import type { HranaStream } from './hrana-streams.ts'

type HranaKind = 'pipeline' | 'cursor'

/** A route of Hrana: what it asks goes as it came to whoever has the cell. The node knows the stream. */
export function hranaRequest(kind: HranaKind): Action {
  return {
    needsKey: true,
    takesBody: true,
    passesOn: true,
    body: CELL_ROUTES[`hrana.${kind}`].body,
    perform: (call, sent) => answer(kind, ofCell(byId(call)), sent),
  }
}

async function answer(kind: HranaKind, call: CellCall, sent: JsonBody): Promise<Answer> {
  const { context, cellId, scope } = call
  refuseQuery(call.request.query)
  const streams = context.hrana
  const owner = { accountId: call.accountId ?? '', cellId, access: scope?.access ?? '' }
  const baton = batonIn(sent)
  const stream = baton === undefined ? streams.make(owner) : streams.take(baton, owner)
  try {
    const answer = await run(kind, call, sent, stream)
    const { stream: state } = answer
    if (state === undefined) throw new Error('An answer of Hrana has no state of its stream.')
    const next = streams.keep(stream, state)
    const type = kind === 'cursor' ? { headers: { 'Content-Type': 'application/x-ndjson' } } : {}
    return { status: 200, json: withBaton(kind, next, answer.json), ...type }
  } catch (error) {
    streams.end(stream, error instanceof CellError ? error : undefined)
    throw error
  }
}

async function run(
  kind: HranaKind,
  { context, request, requestId, cellId, scope, permit }: CellCall,
  { bytes, isParsed, value }: JsonBody,
  stream: HranaStream,
): Promise<CellAnswer> {
  const asked = {
    op: 'request',
    route: `hrana.${kind}`,
    body: bytes,
    parsed: isParsed === true ? { value } : undefined,
    readOnly: scope?.access === 'read' ? true : undefined,
    texts: stream.texts.length > 0 ? stream.texts : undefined,
    hold: { id: stream.id, isOpen: stream.isHeld },
  } as const satisfies CellOperation
  return await context.service.execute(cellId, asked, { signal: request.signal, permit, requestId })
}

/** The answer's list of results, or its entries, behind what only the node knows. */
function withBaton(kind: HranaKind, baton: string | null, json: CellAnswer['json']): CellAnswer['json'] {
  const head = `{"baton":${JSON.stringify(baton)},"base_url":null`
  const [before, after] = kind === 'pipeline' ? [`${head},"results":`, '}'] : [`${head}}\n`, '']
  if (typeof json === 'string') return `${before}${json}${after}`
  return Buffer.concat([Buffer.from(before), json, Buffer.from(after)])
}

/** A person writes the name of a cell into a URL, not its id. */
function byId(call: Call): Call {
  const { context, segments, accountId } = call
  const [segment = ''] = segments
  if (isCellId(segment) || accountId === undefined) return call
  const name = decoded(segment)
  const [found, another] = context.store.cellRecords({ accountId, name, limit: 2 }).cells
  if (another !== undefined)
    throw new CellError('invalid_request', 'Several cells have this name: the URL needs the id of one.')
  if (found !== undefined) checkIsHere(context.cluster, found.id)
  return { ...call, segments: [found?.id ?? segment, ...segments.slice(1)] }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
