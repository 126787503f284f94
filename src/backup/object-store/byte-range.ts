import { CellError } from '../../errors.ts'
import type { GetOptions } from './object-store.ts'

/** Part of an object: `length` bytes from `offset`. */
export interface ByteRange {
  offset: number
  length: number
}

/**
 * The bytes that a `get` delivers of an object of `size` bytes. A range is cut at the object's end.
 *
 * @throws `object_store_error` for an invalid range.
 */
export function resolveRange(range: GetOptions['range'], size: number): ByteRange {
  if (range === undefined) return { offset: 0, length: size }
  checkRange(range)
  if ('last' in range) return { offset: Math.max(size - range.last, 0), length: Math.min(range.last, size) }
  const offset = Math.min(range.offset, size)
  return { offset, length: Math.min(range.length, size - offset) }
}

/** @throws `object_store_error` unless every number of the range is a whole number of at least 0. */
export function checkRange(range: GetOptions['range']): void {
  if (range === undefined) return
  const numbers = 'last' in range ? [range.last] : [range.offset, range.length]
  if (numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return
  const message = 'The byte range of the read is not valid: it takes whole numbers of at least 0.'
  throw new CellError('object_store_error', message)
}
