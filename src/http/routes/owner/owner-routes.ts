import * as z from 'zod'
import type { AccountRecord } from '../../../auth/accounts.ts'
import { scopeOf } from '../../../auth/key-scope.ts'
import { definedOnly } from '../../../base/options/option-shapes.ts'
import type { CellRecord } from '../../../catalog/cell-registry.ts'
import { CellError } from '../../../errors.ts'
import { flag, name, text } from '../../../service/json/fields.ts'
import { Query } from '../../../service/requests/query.ts'
import type { CellDirectory } from '../../../store/cells/cell-directory.ts'
import { SQLITE_TYPE } from '../../body/file-body.ts'
import {
  type Action,
  ok,
  openAction,
  ownerAction,
  ownerActionWith,
  ownerActionWithQuery,
} from '../../core/action.ts'
import type { Audience } from '../../core/audience.ts'
import { asOwnerSees } from '../../core/problem.ts'
import { transfer } from '../../core/transfer.ts'
import { DEFAULT_MEMORY_LIMITS } from '../../quotas/memory-budgets.ts'
import {
  encodeCreatedKey,
  encodeKey,
  encodeRevokedKey,
  encodeRotatedKey,
  rotateOptions,
  rotateSchema,
} from '../api-key-actions.ts'
import { decodeSource, sourceField } from '../branch-actions.ts'
import { cellPage, encodeListed } from '../cell-actions.ts'
import { logAccountChange, logCellChange, logKeyChange } from '../change-log.ts'
import { receive } from '../file-actions.ts'
import { inBodyTerms, scopeFields, scopeOptions } from '../key-scope-body.ts'
import { getStatus, ownerMetrics } from '../node/node-actions.ts'
import { ROUTES, type Route } from '../routes.ts'
import { balanceNodes, drainNode, getCluster, leaveCluster } from './cluster-actions.ts'
import { GREETING_PATH, greeting } from './owner-protocol.ts'
import { recover } from './recover-actions.ts'
import { getPlan, prune, purge, setPlan } from './retention-actions.ts'
import { getStore, verify } from './verify-actions.ts'

/** A statement and its parameters at their limits, with room to spare. */
const BODY_BYTES_MAX = 64 * 1_048_576
/** The owner is one, and cannot be crowded out. */
const MEMORY = {
  ...DEFAULT_MEMORY_LIMITS,
  bodiesPerAccount: DEFAULT_MEMORY_LIMITS.bodiesTotal,
  unsentPerAccount: DEFAULT_MEMORY_LIMITS.unsentTotal,
}
/** Accounts that an error names; there may be thousands. */
const ACCOUNTS_NAMED_MAX = 20
const OR_NEW = ', or make one with --new-account'

const greet = openAction(() => ok(greeting()))

const createKeySchema = z.strictObject({
  account: text.optional(),
  new_account: flag.optional(),
  name: name.optional(),
  ...scopeFields,
})

/** Makes a key: of the account that is named, of a new one, or of the only one. */
const createKey = ownerActionWith(createKeySchema, async (call, body) => {
  const { store } = call.context
  if (body.new_account === true && body.account !== undefined) {
    throw new CellError(
      'invalid_request',
      'A key belongs to an existing account or to a new one: use --account or --new-account, not both.',
      { field: 'account' },
    )
  }
  const options = { name: body.name, ...scopeOptions(body) }
  // Before an account is made: a key that can't be must leave none.
  inBodyTerms(() => scopeOf(options, store.clock.now()))
  if (body.new_account === true && body.cell_ids != null) {
    const message = 'A new account has no cells yet: leave out cell_ids, or name an account.'
    throw new CellError('invalid_request', message, { field: 'cell_ids' })
  }
  const { accountId, created } = await store.durably(() => {
    const accountId =
      body.new_account === true ? store.accounts.create().id : accountOf(store, body.account, OR_NEW)
    return { accountId, created: inBodyTerms(() => store.apiKeys.create(accountId, options)) }
  })
  if (body.new_account === true) logAccountChange(call, 'an account is created', accountId)
  logKeyChange(call, 'created', { id: created.id, accountId })
  return { ...ok({ ...encodeCreatedKey(created), account_id: accountId }), status: 201 }
})

/** The active keys of every account, or of one; newest first. */
const listKeys = ownerActionWithQuery(['account'], ({ context: { store } }, query) => {
  const named = query.text('account')
  const accounts = named === undefined ? accountIds(store) : [accountOf(store, named)]
  const keys = accounts.flatMap((id) => store.apiKeys.list(id).map((key) => ({ ...key, account: id })))
  keys.sort((a, b) => b.createdAt - a.createdAt)
  return ok(keys.map((key) => ({ ...encodeKey(key), account_id: key.account })))
})

const revokeKey = ownerAction(async (call) => {
  const { store } = call.context
  const keyId = call.segments[0] ?? ''
  const accountId = accountOfKey(store, keyId)
  const revoked = await store.durably(() => store.apiKeys.revoke(accountId, keyId))
  logKeyChange(call, 'revoked', { id: keyId, accountId })
  return ok(encodeRevokedKey(revoked))
})

const rotateKey = ownerActionWith(rotateSchema, async (call, body) => {
  const { store } = call.context
  const keyId = call.segments[0] ?? ''
  const accountId = accountOfKey(store, keyId)
  const options = rotateOptions(body)
  const rotated = await store.durably(() =>
    inBodyTerms(() => store.apiKeys.rotate(accountId, keyId, options)),
  )
  logKeyChange(call, 'rotated', { id: keyId, accountId, newKeyId: rotated.id })
  return { ...ok({ ...encodeRotatedKey(rotated), account_id: accountId }), status: 201 }
})

/** Makes a cell of the account that is named, or of the only one; one with the state of another cell is of its account. */
const createCell = ownerActionWith(
  z.strictObject({ account: text.optional(), name: name.optional(), from: sourceField }),
  async (call, { account, name, from }) => {
    const { store, service } = call.context
    const make = async () => {
      if (from == null) return await store.addCell({ accountId: accountOf(store, account), name })
      const accountId = account === undefined ? undefined : accountOf(store, account)
      const source = decodeSource(from)
      return await transfer(call, ({ signal, onProgress, requestId }) =>
        service.branchCell(definedOnly({ from: source, accountId, name, signal, onProgress, requestId })),
      )
    }
    const { id } = await make()
    logCellChange(call, 'a cell is created', id)
    if (from == null) await service.confirmCell(id)
    return { ...ok(encodeOwnCell(store, store.findCell(id) as CellRecord)), status: 201 }
  },
)

/** Makes a cell of a database. */
const importCell: Action = {
  ...ownerAction(() => {
    throw new CellError('unsupported_media_type', `Send the database, as ${SQLITE_TYPE}.`)
  }),
  receive: async (call) => {
    const { store, limits } = call.context
    const query = new Query(call.request.query, ['account', 'name'])
    const accountId = accountOf(store, query.text('account'))
    const id = await receive(call, { accountId, name: query.text('name'), bytesMax: limits.importBytesMax })
    return { ...ok(encodeOwnCell(store, store.findCell(id) as CellRecord)), status: 201 }
  },
}

/** The cells of every account, or of one; oldest first. */
const listCells = ownerActionWithQuery(
  ['account', 'name', 'deleted', 'cursor', 'limit'],
  async ({ context }, query) => {
    const { store } = context
    const named = query.text('account')
    const accountId = named === undefined ? undefined : accountOf(store, named)
    const page = await cellPage(context, query, accountId, (cell) => encodeOwnCell(store, cell))
    return ok(page satisfies CellPageDocument)
  },
)

/** What an account may do to its own cells, the owner may do to all. Accounts are the owner's, here and under /v1. */
const SHARED = /^\/v1\/(databases\/\{id\}|accounts)/

/** Keys and cells of all accounts, and for every cell what an account may do to its own. No key is asked for its scope. */
const OWNER_ROUTES: readonly Route[] = [
  ['GET', GREETING_PATH, greet, 'open'],
  ['GET', '/owner/store', getStore, 'owner'],
  ['GET', '/owner/status', getStatus, 'owner'],
  ['GET', '/owner/metrics', ownerMetrics, 'owner'],

  ['GET', '/owner/cluster', getCluster, 'owner'],
  ['POST', '/owner/cluster/drain', drainNode, 'owner'],
  ['POST', '/owner/cluster/balance', balanceNodes, 'owner'],
  ['POST', '/owner/cluster/leave', leaveCluster, 'owner'],

  ['POST', '/owner/api-keys', createKey, 'owner'],
  ['GET', '/owner/api-keys', listKeys, 'owner'],
  ['DELETE', '/owner/api-keys/{key_id}', revokeKey, 'owner'],
  ['POST', '/owner/api-keys/{key_id}/rotate', rotateKey, 'owner'],

  ['POST', '/owner/databases', createCell, 'owner'],
  ['GET', '/owner/databases', listCells, 'owner'],
  ['POST', '/owner/databases/import', importCell, 'owner'],
  ...ROUTES.filter(([, path]) => SHARED.test(path)).map(
    ([method, path, action, scope]): Route => [method, path.replace('/v1', '/owner'), action, scope],
  ),

  ['POST', '/owner/databases/{id}/recover', recover, 'owner'],
  ['POST', '/owner/databases/{id}/backups/verify', verify, 'owner'],
  ['POST', '/owner/databases/{id}/backups/prune', prune, 'owner'],
  ['POST', '/owner/databases/{id}/backups/purge', purge, 'owner'],
  ['GET', '/owner/databases/{id}/backups/plan', getPlan, 'owner'],
  ['PUT', '/owner/databases/{id}/backups/plan', setPlan, 'owner'],
]

/** The owner of the store, who stands above accounts. Serve it only where the file system says who may connect. */
export const OWNER: Audience = {
  routes: OWNER_ROUTES,
  identify: () => undefined,
  show: asOwnerSees,
  limits: { bodyBytesMax: BODY_BYTES_MAX, importBytesMax: Number.MAX_SAFE_INTEGER, memory: MEMORY },
  sendsProgress: true,
}

/** The documents of `/v1`, with the account: an owner sees those of all. */
export type CreatedKeyDocument = ReturnType<typeof encodeCreatedKey> & { account_id: string }
export type RotatedKeyDocument = ReturnType<typeof encodeRotatedKey> & { account_id: string }
export type KeyDocument = ReturnType<typeof encodeKey> & { account_id: string }
export type CellDocument = ReturnType<typeof encodeOwnCell>
export type ListedCellDocument = CellDocument & {
  status?: 'ok' | 'quarantined' | undefined
  size_bytes: number
}
export type CellPageDocument = { databases: ListedCellDocument[]; next_cursor: string | null }

function encodeOwnCell(store: CellDirectory, cell: CellRecord) {
  return { ...encodeListed(store, cell), account_id: cell.accountId }
}

/** @throws `api_key_not_found` */
function accountOfKey(store: CellDirectory, keyId: string): string {
  const account = store.apiKeys.accountOf(keyId)
  if (account !== undefined) return account
  throw new CellError('api_key_not_found', 'There is no such API key. `cellstore keys list` shows the ids.')
}

function accountIds(store: CellDirectory): string[] {
  return store.accounts.list().map(({ id }) => id)
}

/**
 * The account that is named, or else the only one.
 *
 * @param orElse what the caller may do in place of a choice
 * @throws `invalid_request`
 */
function accountOf(store: CellDirectory, named: string | undefined, orElse = ''): string {
  if (named !== undefined && store.accounts.find(named) !== undefined) return named
  const accounts = store.accounts.list()
  const [only] = accounts
  if (named === undefined && only !== undefined && accounts.length === 1) return only.id
  throw new CellError('invalid_request', whichAccount(named, accounts, orElse), { field: 'account' })
}

function whichAccount(named: string | undefined, accounts: readonly AccountRecord[], orElse: string): string {
  if (accounts.length === 0)
    return 'The store has no account yet. `cellstore keys create --new-account` makes one, with a key.'
  const more =
    accounts.length > ACCOUNTS_NAMED_MAX ? `, and ${accounts.length - ACCOUNTS_NAMED_MAX} more` : ''
  const shown = accounts.slice(0, ACCOUNTS_NAMED_MAX)
  const list = shown.map(({ id, name }) => (name === null ? id : `${id} (${name})`)).join(', ') + more
  if (named !== undefined) return `There is no account with this id. The ids are: ${list}.`
  return `The store has ${accounts.length} accounts. Choose one with --account${orElse}. The ids are: ${list}.`
}
