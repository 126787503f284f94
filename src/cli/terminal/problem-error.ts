import { CellError, type CellErrorCode, ERROR_KINDS } from '../../errors.ts'

/**
 * The error in a problem document. A node of another version may know codes that this command does not.
 *
 * @param noRoute what it means if the node has no such route
 */
export function errorOfProblem(problem: object, noRoute: string): CellError {
  const {
    type: _,
    title,
    status,
    detail,
    code,
    request_id,
    sqlite_code: sqliteCode,
    ...details
  } = problem as Record<string, string>
  if (code === 'internal') {
    return new CellError('internal', `An unexpected error occurred. The log has it as request ${request_id}.`)
  }
  if (code === 'not_found' || code === 'method_not_allowed') return new CellError('invalid_request', noRoute)
  const known = Object.hasOwn(ERROR_KINDS, code ?? '') ? (code as CellErrorCode) : 'internal'
  return new CellError(known, detail ?? '', sqliteCode === undefined ? details : { ...details, sqliteCode })
}
