import * as z from 'zod'
import type {
  ApiKeyRecord,
  CreatedApiKey,
  RotateApiKeyOptions,
  RotatedApiKey,
} from '../../auth/api-key-records.ts'
import type { KeyScope } from '../../auth/key-scope.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import { integer, name as nameField } from '../../service/json/fields.ts'
import { timeOf } from '../../service/json/time.ts'
import type {
  ApiKeyDocument,
  CreatedApiKeyDocument,
  RevokedKeyDocument,
  RotatedKeyDocument,
} from '../answers/api-key-answers.ts'
import {
  type Answer,
  accountAction,
  accountActionWith,
  accountActionWithQuery,
  type Call,
  ok,
  takeTurn,
} from '../core/action.ts'
import { IDEMPOTENCY_HEADER } from '../core/idempotency.ts'
import { logKeyChange } from './change-log.ts'
import { decodeExpiry, inBodyTerms, scopeFields, scopeOptions } from './key-scope-body.ts'

/** Row 1 of the contract: it ignores unknown fields. */
const createSchema = z.looseObject({ name: nameField.nullish(), ...scopeFields })
export const createStrictSchema = z.strictObject(createSchema.shape)
export const rotateSchema = z.strictObject({
  grace_ms: integer.optional(),
  expires_at: scopeFields.expires_at,
})

export const createApiKey = accountActionWith(createSchema, (call, body) =>
  createKeyOf(call.accountId, call, body),
)

export async function createKeyOf(
  accountId: string,
  call: Call,
  body: z.infer<typeof createStrictSchema>,
): Promise<Answer> {
  refuseIdempotency(call)
  const { context, permit } = call
  const { store } = context
  const given = { name: body.name ?? undefined, ...scopeOptions(body) }
  const created = await store.inTurn(accountId, () => {
    permit?.check()
    const options = { ...given, by: permit?.scopeToGive() }
    return store.durably(() => inBodyTerms(() => store.apiKeys.create(accountId, options)))
  })
  logKeyChange(call, 'created', { id: created.id, accountId })
  return { ...ok(encodeCreatedKey(created)), status: 201 }
}

export const rotateApiKey = accountActionWith(rotateSchema, async (call, body) => {
  refuseIdempotency(call)
  const { context, accountId, permit, segments } = call
  const { store } = context
  const keyId = segments[0] ?? ''
  const given = rotateOptions(body)
  const rotated = await store.inTurn(accountId, () => {
    permit?.check()
    const options = { ...given, by: permit?.scopeToGive(keyId) }
    return store.durably(() => inBodyTerms(() => store.apiKeys.rotate(accountId, keyId, options)))
  })
  logKeyChange(call, 'rotated', { id: rotated.replaces.id, accountId, newKeyId: rotated.id })
  return { ...ok(encodeRotatedKey(rotated)), status: 201 }
})

export function rotateOptions({ grace_ms, expires_at }: z.infer<typeof rotateSchema>): RotateApiKeyOptions {
  return definedOnly({ graceMs: grace_ms, expiresAt: decodeExpiry(expires_at) })
}

function refuseIdempotency({ request }: Call): void {
  if (request.header(IDEMPOTENCY_HEADER) === undefined) return
  throw new CellError(
    'idempotency_not_supported',
    'An answer that holds an API key is never stored, so it cannot be repeated. Leave out the header Idempotency-Key.',
    { field: 'Idempotency-Key' },
  )
}

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

export function encodeCreatedKey({
  id,
  key,
  name,
  hint,
  createdAt,
  ...scope
}: CreatedApiKey): CreatedApiKeyDocument {
  return { id, key, name, hint, created_at: timeOf(createdAt), ...encodeScope(scope) }
}

export function encodeRotatedKey({ replaces, ...created }: RotatedApiKey): RotatedKeyDocument {
  return {
    ...encodeCreatedKey(created),
    replaces: { id: replaces.id, expires_at: timeOf(replaces.expiresAt) },
  }
}

export function encodeKey({ id, name, hint, createdAt, lastUsedAt, ...scope }: ApiKeyRecord): ApiKeyDocument {
  const times = { created_at: timeOf(createdAt), last_used_at: timeOf(lastUsedAt) }
  return { id, name, hint, ...times, ...encodeScope(scope) }
}

function encodeScope({ access, cellIds, surface, expiresAt }: KeyScope) {
  return { access, cell_ids: cellIds && [...cellIds], surface, expires_at: timeOf(expiresAt) }
}

export function encodeRevokedKey({ id, revokedAt }: { id: string; revokedAt: number }): RevokedKeyDocument {
  return { id, revoked: true, revoked_at: timeOf(revokedAt) }
}
