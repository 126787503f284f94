import * as z from 'zod'
import type { AccountRecord } from '../../auth/accounts.ts'
import type { QuotaOverrides } from '../../catalog/account-quotas.ts'
import { CellError } from '../../errors.ts'
import { integer, name } from '../../service/json/fields.ts'
import { timeOf } from '../../service/json/time.ts'
import type { AccountDocument } from '../answers/account-answers.ts'
import {
  accountsAction,
  accountsActionWith,
  accountsActionWithQuery,
  type Call,
  emptyBody,
  ok,
  takeTurn,
} from '../core/action.ts'
import { createKeyOf, createStrictSchema } from './api-key-actions.ts'
import { logAccountChange } from './change-log.ts'

const createSchema = z.strictObject({ name: name.nullish() })
const quota = integer.nullish()
const quotasSchema = z.strictObject({
  cells_max: quota,
  api_keys_max: quota,
  bytes_max: quota,
  requests_per_second: quota,
})

export const createAccount = accountsActionWith(createSchema, async (call, body) => {
  const { store } = call.context
  await takeTurn(call, call.accountId ?? null)
  const account = await store.durably(() => store.accounts.create({ name: body.name ?? undefined }))
  logAccountChange(call, 'an account is created', account.id)
  return { ...ok(encodeAccount(account)), status: 201 }
})

export const listAccounts = accountsActionWithQuery(['cursor', 'limit'], async (call, query) => {
  const { store, limits } = call.context
  const limit = query.limit(limits.pageDefault, store.settings.limits.pageMax)
  await takeTurn(call, call.accountId ?? null)
  const { accounts, nextCursor } = store.accounts.page({ cursor: query.text('cursor'), limit })
  return ok({ accounts: accounts.map(encodeAccount), next_cursor: nextCursor })
})

export const getAccount = accountsAction((call) => ok(encodeAccount(accountOf(call))))

export const suspendAccount = accountsActionWith(emptyBody, async (call) => {
  const { store } = call.context
  const { id, suspendedAt } = accountOf(call)
  if (id === call.accountId) {
    throw new CellError(
      'forbidden',
      'A key can’t suspend its own account: nobody could resume it over HTTP. Use `cellstore accounts suspend` on the node.',
    )
  }
  // Without a turn, as a revocation.
  const account = await store.durably(() => store.accounts.suspend(id))
  if (suspendedAt === null) logAccountChange(call, 'an account is suspended', id)
  return ok(encodeAccount(account))
})

export const resumeAccount = accountsActionWith(emptyBody, async (call) => {
  const { store } = call.context
  const { id, suspendedAt } = accountOf(call)
  const account = await store.durably(() => store.accounts.resume(id))
  if (suspendedAt !== null) logAccountChange(call, 'an account is resumed', id)
  return ok(encodeAccount(account))
})

export const setQuotas = accountsActionWith(quotasSchema, async (call, body) => {
  const { store } = call.context
  const { id } = accountOf(call)
  const quotas = decodeQuotas(body)
  await takeTurn(call, call.accountId ?? null)
  const account = await store.durably(() => store.accounts.setQuotas(id, quotas))
  logAccountChange(call, 'the quotas of an account are changed', id)
  return ok(encodeAccount(account))
})

/** Without it, an account that was made over HTTP could not be used. */
export const createKeyOfAccount = accountsActionWith(createStrictSchema, (call, body) =>
  createKeyOf(accountOf(call).id, call, body),
)

/** @throws `account_not_found` */
function accountOf({ context: { store }, segments }: Call): AccountRecord {
  return store.accounts.require(segments[0] ?? '')
}

function decodeQuotas(body: z.infer<typeof quotasSchema>): QuotaOverrides {
  for (const [field, value] of Object.entries(body)) {
    if (value === null || value === undefined || value > 0) continue
    throw new CellError('invalid_request', `${field} must be a whole number above 0, or null.`, { field })
  }
  return {
    cellsMax: body.cells_max ?? undefined,
    apiKeysMax: body.api_keys_max ?? undefined,
    bytesMax: body.bytes_max ?? undefined,
    requestsPerSecond: body.requests_per_second ?? undefined,
  }
}

function encodeAccount({ id, name, createdAt, suspendedAt, quotas }: AccountRecord): AccountDocument {
  return {
    id,
    name,
    created_at: timeOf(createdAt),
    suspended_at: timeOf(suspendedAt),
    quotas: {
      cells_max: quotas.cellsMax ?? null,
      api_keys_max: quotas.apiKeysMax ?? null,
      bytes_max: quotas.bytesMax ?? null,
      requests_per_second: quotas.requestsPerSecond ?? null,
    },
  }
}
