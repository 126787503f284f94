import * as z from 'zod'
import type { KeyScopeOptions } from '../../auth/key-scope.ts'
import { definedOnly } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import { decodeTime, time } from '../../service/json/time.ts'

/** The fields of a key's scope in a body. What they allow together is checked by the library. */
export const scopeFields = {
  access: z.enum(['read', 'write', 'owner'], { error: 'must be "read", "write" or "owner"' }).optional(),
  cell_ids: z
    .array(z.string({ error: 'must be a string' }), { error: 'must be a list of ids of cells' })
    .nullish(),
  surface: z.enum(['kv', 'all'], { error: 'must be "kv" or "all"' }).optional(),
  expires_at: time.nullish(),
}

export type ScopeBody = z.infer<z.ZodObject<typeof scopeFields>>

/** @throws `invalid_request` for a time that is none */
export function scopeOptions({ access, cell_ids, surface, expires_at }: ScopeBody): KeyScopeOptions {
  return definedOnly({ access, cellIds: cell_ids, surface, expiresAt: decodeExpiry(expires_at) })
}

/** @throws `invalid_request` for a time that is none */
export function decodeExpiry(expiry: string | null | undefined): number | null | undefined {
  if (expiry == null) return expiry
  return decodeTime(expiry, 'expires_at')
}

const FIELD_OF_OPTION = { cellIds: 'cell_ids', expiresAt: 'expires_at', graceMs: 'grace_ms' } as const

/** Runs a call of the library whose errors name options, and names the fields of the body instead. */
export function inBodyTerms<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw error instanceof CellError && error.code === 'invalid_request' ? renamed(error) : error
  }
}

function renamed({ code, message, details, cause }: CellError): CellError {
  let text = message
  for (const [option, field] of Object.entries(FIELD_OF_OPTION)) text = text.replaceAll(option, field)
  const { field = '' } = details
  const named = Object.hasOwn(FIELD_OF_OPTION, field)
    ? { field: FIELD_OF_OPTION[field as keyof typeof FIELD_OF_OPTION] }
    : {}
  return new CellError(code, text.replace(', in epoch milliseconds', ''), { ...details, ...named, cause })
}
