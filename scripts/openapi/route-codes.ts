import type { CellErrorCode } from '../../src/errors.ts'
import { STATUS_OF_CODE } from '../../src/http/core/problem.ts'
import type { Route } from '../../src/http/routes/routes.ts'
import type { Operation } from './operation.ts'

/** Of any request, as soon as there is a connection. */
const ANY: readonly CellErrorCode[] = [
  'invalid_request',
  'headers_too_large',
  'request_timeout',
  'busy',
  'shutting_down',
  'internal',
]
const WITH_KEY: readonly CellErrorCode[] = [
  'not_serving',
  'unauthorized',
  'forbidden',
  'account_suspended',
  'rate_limited',
]
const WITH_BODY: readonly CellErrorCode[] = ['unsupported_media_type', 'body_too_large', 'invalid_json']
/** Of a cell: its first use may restore it. */
const OF_CELL: readonly CellErrorCode[] = [
  'cell_not_found',
  'cell_moving',
  'cell_quarantined',
  'cell_restoring',
  'cells_missing',
  'cell_full',
  'disk_full',
  'no_backup',
  'backup_corrupt',
  'object_store_unavailable',
  'object_store_error',
  'not_replicated',
]

/** The codes of all errors that a route may answer. */
export function codesOf([, path, action]: Route, operation: Operation): CellErrorCode[] {
  const codes = [
    ...ANY,
    ...(action.needsKey ? WITH_KEY : []),
    ...(action.takesBody ? WITH_BODY : []),
    ...(path.includes('/{id}') ? OF_CELL : []),
    ...(operation.codes ?? []),
  ]
  return [...new Set(codes)].sort()
}

/** The codes that come over HTTP. Those that have the status 500, but `internal`, and `store_closed` and `taken_over` never do. */
export function codesOverHttp(): CellErrorCode[] {
  const codes = Object.keys(STATUS_OF_CODE) as CellErrorCode[]
  return codes.filter(
    (code) =>
      code === 'internal' ||
      (STATUS_OF_CODE[code] !== 500 && code !== 'store_closed' && code !== 'taken_over'),
  )
}
