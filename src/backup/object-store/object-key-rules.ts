import { CellError } from '../../errors.ts'

/**
 * The folder at the top of every store for everything that is not an object: unfinished files and probes. No key starts
 * with it, and no listing shows it.
 */
export const RESERVED_FOLDER = '.cellstore'

/** UTF-8 bytes. S3 allows 1,024 for prefix and key together, so the prefix gets the other half. */
const KEY_BYTES_MAX = 512
/** UTF-8 bytes of one segment: the limit of file systems for a name. */
const SEGMENT_BYTES_MAX = 255
/** Characters that XML listings or file systems cannot hold. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the rule refuses exactly the control characters
const FORBIDDEN_CHARACTERS = /[\u0000-\u001f\u007f\\]/

/** @throws `object_store_error` for a key that some store could not hold. cellstore makes the keys, so this is a bug. */
export function checkObjectKey(key: string): void {
  const fault = objectKeyFault(key)
  if (fault !== undefined) throw new CellError('object_store_error', `The object key is not valid: ${fault}.`)
}

/** True for a valid key. Listings use it to leave out other things that people put into a bucket or folder. */
export function isObjectKey(key: string): boolean {
  return objectKeyFault(key) === undefined
}

/** @throws `object_store_error` if no key can start with this. The last segment may be incomplete. */
export function checkKeyPrefix(prefix: string): void {
  const folder = prefix.slice(0, prefix.lastIndexOf('/'))
  if (prefix.includes('/')) checkObjectKey(folder)
  const rest = prefix.slice(prefix.lastIndexOf('/') + 1)
  if (FORBIDDEN_CHARACTERS.test(rest) || !rest.isWellFormed()) {
    const message = 'The prefix of the listing is not valid: it holds a character that no key may hold.'
    throw new CellError('object_store_error', message)
  }
}

/** The order of keys everywhere: by their UTF-8 bytes, as S3 sorts. JavaScript's `<` compares UTF-16 units instead. */
export function compareKeys(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** What is wrong with a key, for an error message; undefined for a valid one. */
export function objectKeyFault(key: string): string | undefined {
  if (key === '') return 'it is empty'
  if (!key.isWellFormed()) return 'it is not well-formed Unicode'
  if (FORBIDDEN_CHARACTERS.test(key)) return 'it holds a control character or a backslash'
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) return `it is longer than ${KEY_BYTES_MAX} bytes`
  const segments = key.split('/')
  if (segments[0] === RESERVED_FOLDER) return `its first segment ${RESERVED_FOLDER} is reserved`
  for (const segment of segments) {
    if (segment === '') return 'it has an empty segment'
    if (segment === '.' || segment === '..') return 'it has a segment "." or ".."'
    if (Buffer.byteLength(segment) > SEGMENT_BYTES_MAX)
      return `it has a segment of more than ${SEGMENT_BYTES_MAX} bytes`
  }
  return undefined
}
