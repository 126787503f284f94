import { isError } from '../base/any-realm.ts'
import type { Limits } from '../base/options/limits.ts'
import { shownValue } from '../base/options/shown-value.ts'
import { CellError } from '../errors.ts'

/** A UTF-16 unit takes at most this many bytes in UTF-8. */
const UTF8_BYTES_PER_UNIT_MAX = 3

/** @throws `invalid_key` for a key that is empty, too long, holds a NUL, or is not valid Unicode */
export function checkKey(key: string, { keyBytesMax }: Limits, field = 'key'): void {
  if (typeof key !== 'string') throw new CellError('invalid_key', `${field} is a string.`, { field })
  if (key.length === 0) throw new CellError('invalid_key', `${field} must not be empty.`, { field })
  // Measured exactly only if it could be too long: this is on the path of every get.
  if (key.length * UTF8_BYTES_PER_UNIT_MAX > keyBytesMax && Buffer.byteLength(key) > keyBytesMax) {
    throw new CellError(
      'invalid_key',
      `${field} is at most ${keyBytesMax} bytes of UTF-8 (limits.keyBytesMax).`,
      {
        field,
        limit: keyBytesMax,
      },
    )
  }
  if (key.includes('\0'))
    throw new CellError('invalid_key', `${field} must not hold a NUL character.`, { field })
  if (!key.isWellFormed()) {
    throw new CellError('invalid_key', `${field} holds a lone surrogate, which is not valid Unicode.`, {
      field,
    })
  }
}

/** Whether a call is for several keys, rather than for one; {@link checkList} tells whether it is a list at all. */
export function isList<T>(key: string | readonly T[]): key is readonly T[] {
  return typeof key === 'object' && key !== null
}

/** @throws `invalid_request` for anything but a list, and for too many keys; `invalid_key` */
export function checkKeys(keys: readonly string[], limits: Limits): void {
  checkList(keys, 'keys', limits)
  for (const [i, key] of keys.entries()) checkKey(key, limits, `keys[${i}]`)
}

/** @throws `invalid_request` for anything but a list, and for a list that is too long */
export function checkList(list: readonly unknown[], field: string, { kvKeysMax }: Limits): void {
  if (!Array.isArray(list)) {
    throw new CellError('invalid_request', `${field} must be a list of ${field}.`, { field })
  }
  if (list.length <= kvKeysMax) return
  const message = `An operation takes at most ${kvKeysMax} ${field} (limits.kvKeysMax).`
  throw new CellError('invalid_request', message, { field, limit: kvKeysMax })
}

/** @throws `value_too_large`, or `invalid_request` for anything but a string of valid Unicode */
export function checkValue(value: string, { valueBytesMax }: Limits, field = 'value'): void {
  if (typeof value !== 'string') throw new CellError('invalid_request', `${field} is a string.`, { field })
  if (value.length * UTF8_BYTES_PER_UNIT_MAX > valueBytesMax && Buffer.byteLength(value) > valueBytesMax) {
    throw new CellError(
      'value_too_large',
      `${field} is at most ${valueBytesMax} bytes of UTF-8 (limits.valueBytesMax).`,
      {
        field,
        limit: valueBytesMax,
      },
    )
  }
  if (!value.isWellFormed()) {
    throw new CellError('invalid_request', `${field} holds a lone surrogate, which is not valid Unicode.`, {
      field,
    })
  }
}

/**
 * The least text that sorts after every text with this prefix, or null if there is none. It compares code points, which
 * sort as UTF-8 bytes do.
 */
export function prefixEnd(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) as number)
  while (points.length > 0) {
    const last = points.pop() as number
    if (last === 0x10ffff) continue
    // The surrogates, U+D800 to U+DFFF, are not characters.
    points.push(last === 0xd7ff ? 0xe000 : last + 1)
    return String.fromCodePoint(...points)
  }
  return null
}

/** Options for a whole list would be ignored without a word. @param mend what to do instead */
export function refuseListOptions(options: unknown, mend: string): void {
  const isEmpty = typeof options === 'object' && options !== null && Object.keys(options).length === 0
  if (options === undefined || isEmpty) return
  throw new CellError('invalid_request', `A list ${mend}`, { field: 'options' })
}

/** @throws `invalid_request` for a value that JSON can't hold */
export function toJson(value: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw noForm(reasonOf(cause), cause)
  }
  if (text !== undefined) return text
  throw noForm(`it is ${shownValue(value)}`)
}

function noForm(why: string, cause?: unknown): CellError {
  const details = { field: 'value', ...(cause === undefined ? {} : { cause }) }
  return new CellError('invalid_request', `The value has no JSON form: ${why}.`, details)
}

/** JSON.stringify says it in the first line, and draws a circle below. */
function reasonOf(cause: unknown): string {
  return isError(cause) ? (cause.message.split('\n', 1)[0] as string) : 'its toJSON() fails'
}
