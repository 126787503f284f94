import { CellError } from '../errors.ts'
import { parseJson } from '../service/json/exact-json.ts'
import { hasMoreValues } from './body-values.ts'
import type { HttpRequest } from './http-message.ts'

/** `application/json`, and the types that say they are JSON by their suffix. */
const JSON_TYPE = /^\s*application\/(?:[\w!#$&^.+-]+\+)?json\s*(?:;|$)/i
const CHARSET = /;\s*charset\s*=\s*"?([^\s";]*)/i

export interface JsonBody {
  /** Undefined if it is {@link unread}. */
  value: unknown
  /** False if a framework parsed the body, so that integers beyond ±(2^53−1) may have been rounded. */
  exact: boolean
  /** A body that is long or has many values: reading it is left to whoever runs the operation. */
  unread?: Uint8Array
}

/** What a body may have. */
export interface BodyLimits {
  bodyBytesMax: number
  bodyValuesMax: number
}

/**
 * Which bodies are left to whoever runs the operation: none; those that are long; or these, and those of any number of values.
 * No other body may have more values than the bound.
 */
export type PassesUnread = 'none' | 'long' | 'any'

/** How the reading of a body is bounded. */
export interface BodyReading {
  limits: BodyLimits
  /** Which bodies are passed on as they are. */
  passesUnread: PassesUnread
  /** Told how long the body is or has become, before that much is kept. */
  onBytes(bytes: number): void
  /** Waits for the account's next turn at the event loop. */
  turn(): Promise<void>
  /** As {@link turn}, for so few bytes that it need not wait if the account has little else to do: then undefined. */
  smallTurn(bytes: number): Promise<void> | undefined
}

/** A longer body is read in a turn of its account. A few shorter ones make one turn. */
const TURN_BYTES = 16_384
/** A longer body is passed on unread where it can be: its worker reads it, in the time of its cell. */
const UNREAD_BYTES = 65_536
/** To parse a longer body and to act on it take a turn each. */
const LONG_BODY_BYTES = 262_144

const EMPTY: JsonBody = { value: {}, exact: true }

/**
 * Reads a JSON body. An empty one counts as `{}` and needs no Content-Type.
 *
 * @throws `unsupported_media_type`, `body_too_large`, what `onBytes` throws, `invalid_request` for too many values,
 * `invalid_json`, in this order
 */
export async function readJson(
  request: HttpRequest,
  { limits: { bodyBytesMax, bodyValuesMax }, passesUnread, onBytes, turn, smallTurn }: BodyReading,
): Promise<JsonBody> {
  const { contentLength } = request
  if (contentLength === 0) return EMPTY
  checkEncoding(request)
  const isJson = isJsonType(request.header('content-type') ?? '')
  if (!isJson && contentLength !== undefined) throw notJson()
  if (contentLength !== undefined && contentLength > bodyBytesMax) throw bodyTooLarge(bodyBytesMax)
  // Before anything is read: a body that waits for its last byte takes the memory of a whole one.
  if (contentLength !== undefined) onBytes(contentLength)
  const body = await (isJson ? request.readBody(bodyBytesMax, onBytes) : readNothing(request))
  if (body.kind === 'parsed') return { value: body.value, exact: false }
  const { bytes } = body
  if (bytes.length === 0) return EMPTY
  const next = bytes.length > TURN_BYTES ? turn() : smallTurn(bytes.length)
  if (next !== undefined) await next
  const isLong = bytes.length > UNREAD_BYTES
  const hasMore = !(passesUnread === 'any' && isLong) && hasMoreValues(bytes, bodyValuesMax)
  if (hasMore && passesUnread !== 'any') throw tooManyValues(bodyValuesMax)
  if (hasMore || (isLong && passesUnread !== 'none')) return { value: undefined, exact: true, unread: bytes }
  const value = parseJson(bytes)
  if (bytes.length > LONG_BODY_BYTES) await turn()
  return { value, exact: true }
}

function tooManyValues(max: number): CellError {
  const message = `The body holds more than ${max} values and names (http.bodyValuesMax).`
  return new CellError('invalid_request', message, { limit: max })
}

export function bodyTooLarge(bytesMax: number): CellError {
  return new CellError('body_too_large', `The body is larger than ${bytesMax} bytes (http.bodyBytesMax).`, {
    limit: bytesMax,
  })
}

/** JSON is UTF-8, whether its type says so or not. */
function isJsonType(type: string): boolean {
  return JSON_TYPE.test(type) && /^utf-?8$/i.test(CHARSET.exec(type)?.[1] ?? 'utf-8')
}

/** A body of unknown length need not be declared as JSON if it turns out to be empty. */
async function readNothing(request: HttpRequest): Promise<Awaited<ReturnType<HttpRequest['readBody']>>> {
  try {
    const body = await request.readBody(0)
    if (body.kind === 'parsed') throw notJson()
    return body
  } catch (error) {
    throw error instanceof CellError && error.code === 'body_too_large' ? notJson() : error
  }
}

/** @throws `unsupported_media_type` for a body that is encoded, as in gzip: decoded, a small one can take all memory */
export function checkEncoding({ contentEncoding = '' }: HttpRequest): void {
  if (/^(identity)?$/i.test(contentEncoding.trim())) return
  throw new CellError(
    'unsupported_media_type',
    `The body has Content-Encoding: ${contentEncoding.slice(0, 100)}. Send it without an encoding.`,
  )
}

function notJson(): CellError {
  return new CellError(
    'unsupported_media_type',
    'The body must be JSON in UTF-8. Send Content-Type: application/json.',
  )
}
