import { z } from 'zod'
import type { ApiKeyRecord, CreatedApiKey } from '../auth/api-keys.ts'
import { CellError } from '../errors.ts'
import { accountAction, accountActionWith, ok } from './action.ts'
import { name as nameField } from './fields.ts'
import { IDEMPOTENCY_HEADER } from './idempotency.ts'
import { timeOf } from './time.ts'

export const createApiKey = accountActionWith(z.object({ name: nameField.nullish() }), (call, body) => {
  if (call.request.header(IDEMPOTENCY_HEADER) !== undefined) {
    throw new CellError(
      'idempotency_not_supported',
      'An answer that holds a key is never stored, so it can not be given again. Leave the header Idempotency-Key out.',
      { field: 'Idempotency-Key' },
    )
  }
  const created = call.context.store.apiKeys.create(call.accountId, { name: body.name ?? undefined })
  return { ...ok(encodeCreatedKey(created)), status: 201 }
})

export const listApiKeys = accountAction(({ context, accountId }) =>
  ok(context.store.apiKeys.list(accountId).map(encodeKey)),
)

export const revokeApiKey = accountAction(({ context, accountId, segments }) => {
  return ok(encodeRevokedKey(context.store.apiKeys.revoke(accountId, segments[0] ?? '')))
})

export function encodeCreatedKey({ id, key, name, hint, createdAt }: CreatedApiKey) {
  return { id, key, name, hint, created_at: timeOf(createdAt) }
}

export function encodeKey({ id, name, hint, createdAt, lastUsedAt }: ApiKeyRecord) {
  return { id, name, hint, created_at: timeOf(createdAt), last_used_at: timeOf(lastUsedAt) }
}

export type RevokedKeyDocument = ReturnType<typeof encodeRevokedKey>

export function encodeRevokedKey({ id, revokedAt }: { id: string; revokedAt: number }) {
  return { id, revoked: true, revoked_at: timeOf(revokedAt) }
}
