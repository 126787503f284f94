import { judgedByReader, oneOf, orNull, type Shape } from '../base/options/option-shapes.ts'
import { CellError } from '../errors.ts'

/** What a key may do: each level may do what those before it may. Only `owner` may make and change accounts. */
export type KeyAccess = 'read' | 'write' | 'owner'

/** Where a key may do it: in key-value entries alone, or everywhere. */
export type KeySurface = 'kv' | 'all'

/** What an API key may do, for as long as it lives. It never changes. */
export interface KeyScope {
  /** `read` changes nothing, `write` whatever belongs to the account, `owner` also accounts. */
  readonly access: KeyAccess
  /** The only cells that the key is for; null: all of its account. */
  readonly cellIds: readonly string[] | null
  /** `kv`: only key-value entries; no SQL, no backups, no description of a cell. */
  readonly surface: KeySurface
  /** Epoch milliseconds from which on it is refused; null: never. */
  readonly expiresAt: number | null
}

/** {@link KeyScope} with everything optional: by default a key may do what belongs to its account, and does not expire. */
export interface KeyScopeOptions {
  /** Default `write`. */
  access?: KeyAccess
  /** From 1 to 100 ids of cells of the account; by default, and if null, the key is for all of them. */
  cellIds?: readonly string[] | null
  /** Default `all`. */
  surface?: KeySurface
  /** Epoch milliseconds, in the future; by default, and if null, the key does not expire. */
  expiresAt?: number | null
}

const CELLS_OF_KEY_MAX = 100
/** The last millisecond of the year 9999: RFC 3339 has no later one. */
const TIME_MAX = 253_402_300_799_999

const ACCESS_LEVELS: readonly KeyAccess[] = ['read', 'write', 'owner']

export const KEY_SCOPE: Shape<KeyScopeOptions> = {
  access: oneOf(...ACCESS_LEVELS),
  cellIds: orNull(judgedByReader('a list of ids of cells')),
  surface: oneOf<KeySurface>('kv', 'all'),
  expiresAt: orNull(judgedByReader('a time in epoch milliseconds')),
}

/**
 * A scope with the defaults filled in.
 *
 * @param now epoch milliseconds
 * @throws `invalid_request` for a scope that is none: an owner's key is for everything
 */
export function scopeOf(options: KeyScopeOptions, now: number): KeyScope {
  const { access = 'write', surface = 'all', cellIds = null, expiresAt = null } = options
  checkCellIds(cellIds)
  checkExpiry(expiresAt, now)
  if (access === 'owner' && (cellIds !== null || surface !== 'all')) {
    throw refused('access', 'access owner is for everything: leave out cellIds and surface.')
  }
  return { access, surface, cellIds: cellIds && [...new Set(cellIds)], expiresAt }
}

/** Whether whoever has one scope may give the other: it allows no more, and for no longer. */
export function covers(scope: KeyScope, other: KeyScope): boolean {
  const { cellIds, expiresAt } = scope
  return (
    allows(scope.access, other.access) &&
    (scope.surface === 'all' || other.surface === 'kv') &&
    (cellIds === null || (other.cellIds?.every((id) => cellIds.includes(id)) ?? false)) &&
    (expiresAt === null || (other.expiresAt !== null && other.expiresAt <= expiresAt))
  )
}

/** Whether a level of access includes another one. */
export function allows(access: KeyAccess, needed: KeyAccess): boolean {
  return ACCESS_LEVELS.indexOf(access) >= ACCESS_LEVELS.indexOf(needed)
}

/** @throws `invalid_request` for a time that has passed, or that is none */
export function checkExpiry(expiresAt: number | null, now: number): void {
  if (expiresAt === null) return
  if (Number.isSafeInteger(expiresAt) && expiresAt > now && expiresAt <= TIME_MAX) return
  throw refused('expiresAt', 'expiresAt must be a time in the future, in epoch milliseconds.')
}

export function forbidden(message: string): CellError {
  return new CellError('forbidden', message)
}

function checkCellIds(cellIds: readonly string[] | null): void {
  if (cellIds === null) return
  const isList = Array.isArray(cellIds) && cellIds.every((id) => typeof id === 'string')
  if (isList && cellIds.length >= 1 && cellIds.length <= CELLS_OF_KEY_MAX) return
  const message = `cellIds must be a list of 1 to ${CELLS_OF_KEY_MAX} ids of cells.`
  throw refused('cellIds', message, CELLS_OF_KEY_MAX)
}

function refused(field: string, message: string, limit?: number): CellError {
  return new CellError('invalid_request', message, limit === undefined ? { field } : { field, limit })
}
