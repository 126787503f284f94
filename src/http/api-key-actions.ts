import { z } from 'zod'
import { CellError } from '../errors.ts'
import { accountAction, accountActionWith, ok } from './action.ts'
import { name } from './fields.ts'
import { IDEMPOTENCY_HEADER } from './idempotency.ts'
import { timeOf } from './time.ts'

export const createApiKey = accountActionWith(z.object({ name: name.nullish() }), (call, body) => {
  if (call.request.header(IDEMPOTENCY_HEADER) !== undefined) {
    throw new CellError(
      'idempotency_not_supported',
      'An answer that holds an API key is never stored, so it cannot be repeated. Leave out the header Idempotency-Key.',
      { field: 'Idempotency-Key' },
    )
  }
  const created = call.context.store.apiKeys.create(call.accountId, { name: body.name ?? undefined })
  const { id, key, hint, createdAt } = created
  return { ...ok({ id, key, name: created.name, hint, created_at: timeOf(createdAt) }), status: 201 }
})

export const listApiKeys = accountAction(({ context, accountId }) =>
  ok(
    context.store.apiKeys.list(accountId).map((key) => ({
      id: key.id,
      name: key.name,
      hint: key.hint,
      created_at: timeOf(key.createdAt),
      last_used_at: timeOf(key.lastUsedAt),
    })),
  ),
)

export const revokeApiKey = accountAction(({ context, accountId, segments }) => {
  const { id, revokedAt } = context.store.apiKeys.revoke(accountId, segments[0] ?? '')
  return ok({ id, revoked: true, revoked_at: timeOf(revokedAt) })
})
