import { CellError } from '../../errors.ts'

/**
 * A KV key from its path segment, decoded once. URL parsers of clients remove "." and ".." from a path, so such a key
 * never arrives as it was meant: it is refused, so that it is not taken for another one.
 *
 * @throws `invalid_key`
 */
export function decodeKey(segment: string): string {
  if (!/^[\x21-\x7e]*$/.test(segment)) throw badKey('must be percent-encoded UTF-8')
  const key = segment.includes('%') ? decodeSegment(segment) : segment
  if (key === '.' || key === '..') {
    throw badKey('cannot be "." or ".." in a path: use kv/ops/mget, kv/ops/mset or kv/ops/delete')
  }
  return key
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw badKey('must be percent-encoded UTF-8')
  }
}

function badKey(why: string): CellError {
  return new CellError('invalid_key', `key ${why}.`, { field: 'key' })
}
