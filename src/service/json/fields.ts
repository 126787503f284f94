import * as z from 'zod'
import { unknownName } from '../../base/options/known-names.ts'
import type { Limits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import { checkedByHand, noted } from './schema-notes.ts'

/**
 * The types of fields in a body. Each message continues the field's name: `value` + `must be a string`. Only types are
 * checked here: which keys, values and times to live are valid is checked by the library.
 */
export const text = z.string({ error: 'must be a string' })

export const flag = z.boolean({ error: 'must be true or false' })

export const versionOrNull = z.string({ error: 'must be a version, "*" or null' }).nullable()

/** A JSON integer: no fraction, no string, and small enough to be exact. */
export const integer = checkedByHand(
  z.custom<number>((value) => Number.isSafeInteger(value), 'must be a whole number'),
  () => z.int(),
)

/** Seconds to live. Its bounds are the library's to check. */
export const ttlSeconds = noted(
  checkedByHand(integer, () => z.int().min(1)),
  {
    description: 'Whole seconds, up to 100 years (limits.ttlSecondsMax).',
  },
)

const NAME_CHARS_MAX = 255

export const name = z
  .string({ error: 'must be a string' })
  .max(NAME_CHARS_MAX, `must have at most ${NAME_CHARS_MAX} characters`)
  .refine((value) => value.isWellFormed(), 'holds a lone surrogate, which is not valid Unicode')

/**
 * A list of anything: a body can hold a million elements, so their number is checked before they are.
 *
 * @param entries what the list holds, for the message: `a list of keys`
 * @param entry what each of them is, for the OpenAPI document
 */
export function list(entries: string, entry: () => z.ZodType) {
  const any = z.custom<unknown[]>(Array.isArray, `must be a list of ${entries}`)
  return checkedByHand(any, () => z.array(entry()))
}

/**
 * The elements of a {@link list}.
 *
 * @param field the list's name
 * @throws `invalid_request` if there are too many; as {@link parseFields} for the first wrong one
 */
export function parseList<T>(
  entry: z.ZodType<T>,
  values: readonly unknown[],
  field: string,
  { kvKeysMax }: Pick<Limits, 'kvKeysMax'>,
): T[] {
  if (values.length > kvKeysMax) {
    const message = `An operation takes at most ${kvKeysMax} ${field} (limits.kvKeysMax).`
    throw new CellError('invalid_request', message, { field, limit: kvKeysMax })
  }
  return values.map((value, i) => parseFields(entry, value, `${field}[${i}]`))
}

/** Fields with a code of their own. All others are `invalid_request`. */
const CODES: Record<string, 'invalid_ttl'> = { ttl_seconds: 'invalid_ttl' }

/**
 * Checks a body, or a part of it, against its schema. A strict schema refuses unknown fields, whatever else is wrong: a
 * field that is missing may be there under a wrong name.
 *
 * @param at where in the body the part stands: `operations[2]`
 * @throws `invalid_request`, or `invalid_ttl` where that is the field; `field` names what was wrong
 */
export function parseFields<T>(schema: z.ZodType<T>, value: unknown, at = ''): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const { issues } = parsed.error
  const unknown = issues.find((issue) => issue.code === 'unrecognized_keys')
  if (unknown !== undefined) {
    const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
    throw unknownName(unknown.keys[0] ?? '', known, { at: at === '' ? '' : `${at}.` })
  }
  const issue = issues[0]
  const path = issue?.path ?? []
  const field = path.reduce<string>(joinField, at)
  if (field === '') throw new CellError('invalid_request', 'The body must be a JSON object.')
  const isNoObject = path.length === 0 && issue?.code === 'invalid_type' && issue.expected === 'object'
  const message = isNoObject ? 'must be a JSON object' : (issue?.message ?? 'is wrong')
  const limit = issue?.code === 'too_big' ? { limit: Number(issue.maximum) } : {}
  throw new CellError(CODES[String(path.at(-1))] ?? 'invalid_request', `${field} ${message}.`, {
    field,
    ...limit,
  })
}

function joinField(field: string, part: PropertyKey): string {
  if (typeof part === 'number') return `${field}[${part}]`
  return field === '' ? String(part) : `${field}.${String(part)}`
}
