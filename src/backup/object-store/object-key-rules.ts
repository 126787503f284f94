import { CellError } from '../../errors.ts'

/**
 * The folder at the top of every store that holds what is not an object: files being written, probes. No key begins
 * with it, and no listing shows it.
 */
export const RESERVED_FOLDER = '.cellstore'

/** UTF-8 bytes. S3 takes 1,024 for prefix and key together, so this leaves a prefix the other half. */
const KEY_BYTES_MAX = 512
/** UTF-8 bytes of one segment: what file systems take as a name. */
const SEGMENT_BYTES_MAX = 255
/** Characters that XML listings or file systems can't carry. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are just what is refused
const FORBIDDEN_CHARACTERS = /[\u0000-\u001f\u007f\\]/

/** @throws `object_store_error` for a key that some store could not hold: a bug of the caller, since keys are ours. */
export function checkObjectKey(key: string): void {
  const fault = keyFault(key)
  if (fault !== undefined) throw new CellError('object_store_error', `The object key is not valid: ${fault}.`)
}

/** True for a key that {@link checkObjectKey} takes. Listings leave out what else people put into a bucket or folder. */
export function isObjectKey(key: string): boolean {
  return keyFault(key) === undefined
}

/** @throws `object_store_error` unless some key could start with this. The last segment may be cut short. */
export function checkKeyPrefix(prefix: string): void {
  const folder = prefix.slice(0, prefix.lastIndexOf('/'))
  if (prefix.includes('/')) checkObjectKey(folder)
  const rest = prefix.slice(prefix.lastIndexOf('/') + 1)
  if (FORBIDDEN_CHARACTERS.test(rest) || !rest.isWellFormed()) {
    throw new CellError('object_store_error', 'The prefix of a listing is not valid.')
  }
}

/** The order of keys everywhere: by their UTF-8 bytes, which is what S3 sorts by and JavaScript's `<` is not. */
export function compareKeys(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function keyFault(key: string): string | undefined {
  if (key === '') return 'it is empty'
  if (!key.isWellFormed()) return 'it is not well-formed Unicode'
  if (FORBIDDEN_CHARACTERS.test(key)) return 'it holds a control character or a backslash'
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) return `it is longer than ${KEY_BYTES_MAX} bytes`
  const segments = key.split('/')
  if (segments[0] === RESERVED_FOLDER) return `${RESERVED_FOLDER} is the store's own folder`
  for (const segment of segments) {
    if (segment === '') return 'it has an empty segment'
    if (segment === '.' || segment === '..') return 'it has a segment of dots'
    if (Buffer.byteLength(segment) > SEGMENT_BYTES_MAX)
      return `a segment is longer than ${SEGMENT_BYTES_MAX} bytes`
  }
  return undefined
}
