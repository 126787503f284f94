import { CellError } from '../../errors.ts'

/** The headers of a request that say when it may happen, as they were sent. */
export interface Conditions {
  ifMatch?: string | undefined
  ifNoneMatch?: string | undefined
}

/** The version of an entry is its entity tag. It is a strong one: `ttl_seconds` counts down without a change of the entry. */
export function etagOf(version: string): string {
  return `"${version}"`
}

/**
 * What `If-Match` and `If-None-Match` say of a change, as the library's `ifVersion`.
 *
 * @throws `invalid_request` for a condition that cannot be judged: a change must not happen as if there were none
 */
export function changeCondition({ ifMatch, ifNoneMatch }: Conditions): string | null | undefined {
  const match = ifMatch?.trim()
  const noneMatch = ifNoneMatch?.trim()
  if (match !== undefined && noneMatch !== undefined) {
    throw badHeader('If-None-Match', 'must not come together with If-Match')
  }
  if (noneMatch !== undefined) {
    if (noneMatch === '*') return null
    throw badHeader('If-None-Match', 'of a change must be *: only if there is no entry yet')
  }
  if (match === undefined || match === '*') return match
  const version = /^"([^"]*)"$/.exec(match)?.[1]
  if (version !== undefined && version !== '*') return version
  throw badHeader('If-Match', 'must be * or one version in double quotes, as ETag shows it')
}

/** As {@link changeCondition}, for a deletion. */
export function deleteCondition(conditions: Conditions): string | undefined {
  const condition = changeCondition(conditions)
  if (condition !== null) return condition
  throw badHeader('If-None-Match', 'of a deletion leaves nothing to delete: use If-Match')
}

/**
 * For a change that judges no condition of a header: it must not happen as if there were none.
 *
 * @throws `invalid_request`
 */
export function refuseConditions({ ifMatch, ifNoneMatch }: Conditions): void {
  if (ifMatch === undefined && ifNoneMatch === undefined) return
  throw badHeader(
    ifMatch === undefined ? 'If-None-Match' : 'If-Match',
    'is not judged here: PUT or DELETE the key with it, or use if_version of a batch',
  )
}

/** Whether the sender of a GET has this version already. `If-None-Match` may list several; a proxy may have weakened them. */
export function isNotModified({ ifNoneMatch }: Conditions, version: string): boolean {
  const tags = ifNoneMatch?.split(',')
  return (
    tags?.some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etagOf(version)) ?? false
  )
}

function badHeader(header: string, what: string): CellError {
  return new CellError('invalid_request', `${header} ${what}.`, { field: header })
}
