import { CellError } from '../../errors.ts'
import type { GetOptions } from './object-store.ts'

/** A part of an object: `length` bytes from `offset`. */
export interface ByteRange {
  offset: number
  length: number
}

/**
 * What a `get` is to deliver of an object of `size` bytes. A range is cut at the object's end.
 *
 * @throws `object_store_error` for a range that is none.
 */
export function resolveRange(range: GetOptions['range'], size: number): ByteRange {
  if (range === undefined) return { offset: 0, length: size }
  checkRange(range)
  if ('last' in range) return { offset: Math.max(size - range.last, 0), length: Math.min(range.last, size) }
  const offset = Math.min(range.offset, size)
  return { offset, length: Math.min(range.length, size - offset) }
}

/** @throws `object_store_error` unless every number of the range is a whole one that is not negative. */
export function checkRange(range: GetOptions['range']): void {
  if (range === undefined) return
  const numbers = 'last' in range ? [range.last] : [range.offset, range.length]
  if (numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return
  throw new CellError('object_store_error', 'The byte range of a read is not valid.')
}
