import { CellError } from '../../errors.ts'
import { parseJson } from '../../service/json/exact-json.ts'
import type { HttpRequest } from '../core/http-message.ts'

/** `application/json`, and the types that say they are JSON by their suffix. */
const JSON_TYPE = /^\s*application\/(?:[\w!#$&^.+-]+\+)?json\s*(?:;|$)/i
const CHARSET = /;\s*charset\s*=\s*"?([^\s";]*)/i

export interface JsonBody {
  /** Undefined if it is passed on as it came. */
  value?: unknown
  /** As it came, if it is passed on. */
  bytes?: Uint8Array | undefined
  /** A framework parsed it, so that integers beyond ±(2^53−1) may have been rounded. */
  isParsed?: boolean
}

/** What a body may have. */
export interface BodyLimits {
  bodyBytesMax: number
  /** Only of bodies that are read here. */
  bodyValuesMax: number
}

/** How the reading of a body is bounded. */
export interface BodyReading {
  limits: BodyLimits
  /** Leaves the bytes as they are. */
  passesOn: boolean
  /** Told how long the body is or has become, before that much is kept. */
  onBytes(bytes: number): void
  /** Waits for the account's next turn at the event loop. */
  turn(): Promise<void>
}

/** A longer body is read in a turn of its account. */
const TURN_BYTES = 16_384

/**
 * Reads a JSON body. An empty one counts as `{}` and needs no Content-Type.
 *
 * @throws `unsupported_media_type`, `body_too_large`, what `onBytes` throws, and unless it is passed on `invalid_request` for too many
 * values and `invalid_json`, in this order
 */
export async function readJson(
  request: HttpRequest,
  { limits: { bodyBytesMax, bodyValuesMax }, passesOn, onBytes, turn }: BodyReading,
): Promise<JsonBody> {
  const { contentLength } = request
  if (contentLength === 0) return { value: {} }
  checkEncoding(request)
  const isJson = isJsonType(request.header('content-type') ?? '')
  if (!isJson && contentLength !== undefined) throw notJson()
  if (contentLength !== undefined && contentLength > bodyBytesMax) throw bodyTooLarge(bodyBytesMax)
  // Before anything is read: a body that waits for its last byte takes the memory of a whole one.
  if (contentLength !== undefined) onBytes(contentLength)
  const body = await (isJson ? request.readBody(bodyBytesMax, onBytes) : readNothing(request))
  if (body.kind === 'parsed') return { value: body.value, isParsed: true }
  const { bytes } = body
  if (bytes.length === 0) return { value: {} }
  if (passesOn) return { bytes }
  if (bytes.length > TURN_BYTES) await turn()
  if (hasMoreValues(bytes, bodyValuesMax)) throw tooManyValues(bodyValuesMax)
  return { value: parseJson(bytes) }
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

const [QUOTE, BACKSLASH, COMMA, COLON, LIST, OBJECT] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/**
 * Whether JSON holds more values and names than so many. What a body costs to parse and to check depends on their number
 * more than on its bytes, so they are counted before, in one pass that makes nothing and ends at the bound.
 */
export function hasMoreValues(json: Uint8Array, max: number): boolean {
  // Each takes two bytes, but the last.
  if (json.length <= 2 * max) return false
  let values = 1
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case QUOTE:
        at = endOfString(json, at)
        break
      case COMMA:
      case COLON:
      case LIST:
      case OBJECT:
        if (++values > max) return true
    }
  }
  return false
}

/** Where a string's closing quote is; the end if there is none. A text is mostly long and without escapes, or short. */
function endOfString(json: Uint8Array, start: number): number {
  const end = json.indexOf(QUOTE, start + 1)
  if (end === -1) return json.length
  if (json[end - 1] !== BACKSLASH) return end
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === BACKSLASH) at++
    else if (json[at] === QUOTE) return at
  }
  return json.length
}
