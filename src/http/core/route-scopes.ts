import { allows, forbidden, type KeyAccess, type KeyScope } from '../../auth/key-scope.ts'

/**
 * What a key must be allowed to do on a route. Which cells it is for is checked where a cell is looked up: others than its
 * own do not exist for it.
 */
export type RouteScope =
  /** Needs no key. */
  | 'open'
  /** Key-value entries of a cell. */
  | 'kv:read'
  | 'kv:write'
  /** Everything else of one cell. A statement with a key that only reads is refused where it runs, if it can change anything. */
  | 'cell:read'
  | 'cell:write'
  /** Cells and keys of the account: not for keys of some cells. */
  | 'account:read'
  | 'account:write'
  /** Accounts. */
  | 'owner'

interface Needs {
  access: KeyAccess
  /** Undefined: either surface has it. */
  surface?: 'all'
  allCells?: true
}

const NEEDS: Readonly<Record<Exclude<RouteScope, 'open'>, Needs>> = {
  'kv:read': { access: 'read' },
  'kv:write': { access: 'write' },
  'cell:read': { access: 'read', surface: 'all' },
  'cell:write': { access: 'write', surface: 'all' },
  'account:read': { access: 'read', surface: 'all', allCells: true },
  'account:write': { access: 'write', surface: 'all', allCells: true },
  owner: { access: 'owner', surface: 'all', allCells: true },
}

/** @throws `forbidden`, with what the key lacks */
export function checkScope(scope: KeyScope, route: RouteScope): void {
  if (route === 'open') return
  const { access, surface, allCells } = NEEDS[route]
  if (!allows(scope.access, access)) throw forbidden(LACKS[access])
  if (surface === 'all' && scope.surface !== 'all') throw forbidden('This key is for key-value entries only.')
  if (allCells === true && scope.cellIds !== null) throw forbidden('This key is for some cells only.')
}

const LACKS: Readonly<Record<KeyAccess, string>> = {
  read: 'This key may not read.',
  write: 'This key may only read.',
  owner: 'This needs a key with the access owner. `cellstore keys create --owner` makes one.',
}
