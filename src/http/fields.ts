import { z } from 'zod'
import { CellError } from '../errors.ts'

/**
 * The kinds of fields that bodies hold. Each one's message goes on from the field's name: `value` + `takes a string`.
 * What a key, a value or a time to live may be is settled below, for the library too; here is only their type.
 */
export const text = z.string({ error: 'takes a string' })

export const flag = z.boolean({ error: 'takes true or false' })

/** A JSON integer: no fraction, no string, and small enough to be exact. */
export const integer = z.custom<number>((value) => Number.isSafeInteger(value), 'takes a whole number')

const NAME_CHARS_MAX = 255

export const name = z
  .string({ error: 'takes a string' })
  .max(NAME_CHARS_MAX, `takes at most ${NAME_CHARS_MAX} characters`)
  .refine((value) => value.isWellFormed(), 'holds a lone surrogate, which is not valid Unicode')

/** @param entry what stands in the list, for the message: `a list of strings` */
export function listOf<T extends z.ZodType>(entry: T, entries: string): z.ZodArray<T> {
  return z.array(entry, { error: `takes a list of ${entries}` })
}

/** Fields with a code of their own. All others are `invalid_request`. */
const CODES: Record<string, 'invalid_ttl'> = { ttl_seconds: 'invalid_ttl' }

/**
 * Checks a body, or a part of it, against its schema. Unknown fields are dropped.
 *
 * @param at where in the body the part stands: `operations[2]`
 * @throws `invalid_request`, or `invalid_ttl` where that is the field; its `field` names what was wrong
 */
export function parseFields<T>(schema: z.ZodType<T>, value: unknown, at = ''): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const path = issue?.path ?? []
  const field = path.reduce<string>(joinField, at)
  if (field === '') throw new CellError('invalid_request', 'The body takes a JSON object.')
  const message = path.length === 0 ? 'takes a JSON object' : (issue?.message ?? 'is wrong')
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
