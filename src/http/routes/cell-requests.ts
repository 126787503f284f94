import { CellError } from '../../errors.ts'
import type { CellRoute } from '../../service/operations.ts'
import { CELL_ROUTES } from '../../service/requests/cell-routes.ts'
import { refuseQuery } from '../../service/requests/query.ts'
import type { JsonBody } from '../body/request-body.ts'
import { type Action, type Answer, type CellCall, ofCell } from '../core/action.ts'

/** A route of a cell whose requests go as they came to whoever has the cell: it reads them and writes their answers. */
export function cellRequest(route: CellRoute): Action {
  const { body, query } = CELL_ROUTES[route]
  return {
    needsKey: true,
    takesBody: body !== undefined,
    passesOn: true,
    body,
    query,
    perform: (call, sent) => passOn(route, ofCell(call), sent, query !== undefined),
  }
}

async function passOn(
  route: CellRoute,
  { context, request, requestId, segments, cellId, scope, permit }: CellCall,
  { bytes, isParsed, value }: JsonBody,
  takesQuery: boolean,
): Promise<Answer> {
  if (!takesQuery) refuseQuery(request.query)
  // Only SQL can run for long enough that it is worth the cost to know whether its client still waits.
  const signal = route === 'sql' || route === 'batch' ? request.signal : undefined
  const asked = {
    op: 'request',
    route,
    key: segments[1],
    query: request.query || undefined,
    ifMatch: request.header('if-match'),
    ifNoneMatch: request.header('if-none-match'),
    body: bytes,
    parsed: isParsed === true ? { value } : undefined,
    readOnly: scope?.access === 'read' ? true : undefined,
  } as const
  try {
    const { status, json, etag } = await context.service.execute(cellId, asked, { signal, permit, requestId })
    return etag === undefined ? { status, json } : { status, json, headers: { ETag: etag } }
  } catch (error) {
    throw route === 'batch' ? withBatchField(error) : error
  }
}

/** The field's place in the body that the caller sent, for an error that names only its operation. */
function withBatchField(error: unknown): unknown {
  if (!(error instanceof CellError)) return error
  const { index, field } = error.details
  if (index === undefined || field === undefined || field.startsWith('operations[')) return error
  return new CellError(error.code, error.message, {
    ...error.details,
    field: `operations[${index}].${field}`,
    cause: error,
  })
}
