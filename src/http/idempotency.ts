import { createHash, type Hash } from 'node:crypto'
import { CellError } from '../errors.ts'

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
  const hash = createHash('sha256')
  if (isSmall) new CanonicalJson(hash).add(body).flush()
  else hash.update(asItCame(body))
  return hash.digest('hex')
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

/** Longer texts go into the hash as they are, after their length: JSON would read each of their characters twice more. */
const ESCAPED_CHARS_MAX = 256
const PIECE_CHARS = 65_536

/** Writes a value into a hash, with the members of objects in order. */
class CanonicalJson {
  readonly #hash: Hash
  #piece = ''

  constructor(hash: Hash) {
    this.#hash = hash
  }

  add(value: unknown): this {
    if (typeof value === 'string') this.#addText(value)
    else if (typeof value === 'bigint') this.#write(value.toString())
    else if (typeof value !== 'object' || value === null) this.#write(JSON.stringify(value))
    else if (Array.isArray(value)) this.#addAll('[', value, ']', (each) => this.add(each))
    else {
      const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
      this.#addAll('{', members, '}', ([name, member]) => {
        this.#addText(name)
        this.#write(':')
        this.add(member)
      })
    }
    return this
  }

  flush(): void {
    this.#hash.update(this.#piece)
    this.#piece = ''
  }

  #addAll<T>(open: string, elements: readonly T[], close: string, add: (element: T) => void): void {
    this.#write(open)
    for (const [i, element] of elements.entries()) {
      if (i > 0) this.#write(',')
      add(element)
    }
    this.#write(close)
  }

  #addText(text: string): void {
    const isLong = text.length > ESCAPED_CHARS_MAX && text.isWellFormed()
    this.#write(isLong ? `#${text.length}:` : JSON.stringify(text))
    if (isLong) this.#write(text)
  }

  #write(text: string): void {
    this.#piece += text
    if (this.#piece.length > PIECE_CHARS) this.flush()
  }
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
