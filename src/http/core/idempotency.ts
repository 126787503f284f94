import { createHash } from 'node:crypto'
import stringify from 'safe-stable-stringify'
import { CellError } from '../../errors.ts'

export const IDEMPOTENCY_HEADER = 'idempotency-key'

const KEY_CHARS_MAX = 255
/** Printable ASCII: what a header can hold without any question of encoding. */
const PRINTABLE = /^[\x20-\x7e]*$/
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/
/** No request to create a cell needs a deeper body. */
const DEPTH_MAX = 64
const VALUES_MAX = 10_000

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

/**
 * SHA-256 of a body in canonical form: the order of its members, blanks and escapes make no difference. In a body of more
 * values than anyone needs to create a cell, the order does.
 */
export function fingerprintOf(body: object): string {
  const isSmall = countValues(body, VALUES_MAX) <= VALUES_MAX
  return createHash('sha256')
    .update(isSmall ? stringify(body) : asItCame(body))
    .digest('hex')
}

/** Counts no further than to one above the bound. @throws `invalid_request` if they are nested too deeply */
function countValues(value: unknown, max: number, depth = 0): number {
  if (depth > DEPTH_MAX) throw tooDeep()
  if (typeof value !== 'object' || value === null) return 1
  const members = Array.isArray(value) ? value : Object.values(value)
  let count = 1 + members.length
  for (let i = 0; i < members.length && count <= max; i++)
    count += countValues(members[i], max - count, depth + 1) - 1
  return count
}

function asItCame(body: object): string {
  try {
    return JSON.stringify(body)
  } catch {
    throw tooDeep()
  }
}

function tooDeep(): CellError {
  return new CellError('invalid_request', 'The body is nested too deeply.')
}
