import { CellError, isCellError } from '../../errors.ts'

/**
 * SQLSTATE classes and codes of a PostgreSQL that can't serve now: the connection, its resources, its shutdown or start, a
 * standby, what another transaction or a deadline has ended, and a schema that is gone.
 */
const OUTAGES = /^(08|53|57|58|40|25006|25P0[234]|55000|55P03|42P01|3F000)/
/** The password, the role, the database. */
const REFUSED = /^(28|3D000)/
const NO_RIGHTS = '42501'

/** Whether a later try may help. It has no SQLSTATE if no answer came. */
export function isOutage(error: unknown): boolean {
  const state = stateOf(error)
  return state === undefined || OUTAGES.test(state)
}

/** Undefined where the error is not PostgreSQL's own: a connection that broke has a code of the system, or none. */
export function stateOf(error: unknown): string | undefined {
  const { code } = Object(isCellError(error) ? error.cause : error) as { code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code) ? code : undefined
}

/** What fails later than at the start: a password that was changed meanwhile can be changed back. */
export function toCellError(error: unknown): CellError {
  if (isCellError(error)) return error
  const state = stateOf(error)
  if (isOutage(error) || REFUSED.test(state ?? '') || state === NO_RIGHTS) {
    return new CellError('cluster_unavailable', `The cluster's PostgreSQL does not serve now.`, {
      cause: error,
    })
  }
  return new CellError('internal', `The cluster's PostgreSQL refused a statement.`, { cause: error })
}

/** What is wrong with the setting, if the operator has to change it. */
export function refusedStart(error: unknown): CellError {
  const cause = isCellError(error) && error.cause !== undefined ? error.cause : error
  const state = stateOf(cause) ?? ''
  if (REFUSED.test(state)) return refused(`The cluster's PostgreSQL refuses the connection.`, cause)
  if (state === NO_RIGHTS) {
    return refused(
      `The role of the cluster's URL lacks rights. It must own the schema: CREATE SCHEMA cellstore AUTHORIZATION <role>.`,
      cause,
    )
  }
  return toCellError(error)
}

export function refused(message: string, cause?: unknown): CellError {
  return new CellError('invalid_setting', message, { field: 'cluster', cause })
}
