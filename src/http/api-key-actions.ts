import { z } from 'zod'
import type { ApiKeyRecord, CreatedApiKey } from '../auth/api-keys.ts'
import { CellError } from '../errors.ts'
import { name as nameField } from '../service/json/fields.ts'
import { timeOf } from '../service/json/time.ts'
import { accountAction, accountActionWith, accountActionWithQuery, ok, takeTurn } from './action.ts'
import type { ApiKeyDocument, CreatedApiKeyDocument, RevokedKeyDocument } from './answers/api-key-answers.ts'
import { IDEMPOTENCY_HEADER } from './idempotency.ts'
import { logKeyChange } from './key-change-log.ts'

/** Row 1 of the contract: it ignores unknown fields. */
const createSchema = z.looseObject({ name: nameField.nullish() })

export const createApiKey = accountActionWith(createSchema, async (call, body) => {
  if (call.request.header(IDEMPOTENCY_HEADER) !== undefined) {
    throw new CellError(
      'idempotency_not_supported',
      'An answer that holds an API key is never stored, so it cannot be repeated. Leave out the header Idempotency-Key.',
      { field: 'Idempotency-Key' },
    )
  }
  const { context, accountId, permit } = call
  const { store } = context
  const created = await store.inTurn(accountId, () => {
    permit?.check()
    return store.durably(() => store.apiKeys.create(accountId, { name: body.name ?? undefined }))
  })
  logKeyChange(call, 'created', { id: created.id, accountId })
  return { ...ok(encodeCreatedKey(created)), status: 201 }
})

const COLLECTION = '/v1/api-keys'

/** An array, so that a page names the next one in a header. */
export const listApiKeys = accountActionWithQuery(['cursor', 'limit'], async (call, query) => {
  const { context, request, accountId } = call
  const { pageMax } = context.store.settings.limits
  const limit = query.limit(pageMax, pageMax)
  await takeTurn(call, accountId)
  const { keys, nextCursor } = context.store.apiKeys.page(accountId, { cursor: query.text('cursor'), limit })
  const answer = ok(keys.map(encodeKey))
  if (nextCursor === null) return answer
  const next = `${request.mount}${COLLECTION}?limit=${limit}&cursor=${nextCursor}`
  return { ...answer, headers: { Link: `<${next}>; rel="next"` } }
})

export const revokeApiKey = accountAction(async (call) => {
  const { context, accountId, segments } = call
  const { store } = context
  // Without a turn: a stolen key that is busy must not hold up its revocation.
  const revoked = await store.durably(() => store.apiKeys.revoke(accountId, segments[0] ?? ''))
  logKeyChange(call, 'revoked', { id: revoked.id, accountId })
  return ok(encodeRevokedKey(revoked))
})

export function encodeCreatedKey({ id, key, name, hint, createdAt }: CreatedApiKey): CreatedApiKeyDocument {
  return { id, key, name, hint, created_at: timeOf(createdAt) }
}

export function encodeKey({ id, name, hint, createdAt, lastUsedAt }: ApiKeyRecord): ApiKeyDocument {
  return { id, name, hint, created_at: timeOf(createdAt), last_used_at: timeOf(lastUsedAt) }
}

export function encodeRevokedKey({ id, revokedAt }: { id: string; revokedAt: number }): RevokedKeyDocument {
  return { id, revoked: true, revoked_at: timeOf(revokedAt) }
}
