import { createHash } from 'node:crypto'
import { CellError } from '../errors.ts'

export const IDEMPOTENCY_HEADER = 'idempotency-key'

const KEY_CHARS_MAX = 255
/** Printable ASCII: what a header can hold without any question of encoding. */
const PRINTABLE = /^[\x20-\x7e]*$/
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/
/** No request to create a cell needs a deeper body. */
const DEPTH_MAX = 64

/**
 * The key of an `Idempotency-Key` header. The IETF draft writes it as a quoted string and most services as it is; both
 * name the same key.
 *
 * @throws `invalid_request`
 */
export function parseIdempotencyKey(header: string): string {
  const key = QUOTED.exec(header)?.[1]?.replaceAll(/\\(["\\])/g, '$1') ?? header
  if (key.length >= 1 && key.length <= KEY_CHARS_MAX && PRINTABLE.test(key)) return key
  throw new CellError(
    'invalid_request',
    `Idempotency-Key must have 1 to ${KEY_CHARS_MAX} printable ASCII characters.`,
    {
      field: 'Idempotency-Key',
      limit: KEY_CHARS_MAX,
    },
  )
}

/** SHA-256 of a body in canonical form: the order of its members, blanks and escapes make no difference. */
export function fingerprintOf(body: unknown): string {
  return createHash('sha256').update(canonicalJson(body, 0)).digest('hex')
}

function canonicalJson(value: unknown, depth: number): string {
  if (depth > DEPTH_MAX) throw new CellError('invalid_request', 'The body is nested too deeply.')
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item, depth + 1)).join(',')}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member, depth + 1)}`).join(',')}}`
}
