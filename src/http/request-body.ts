import { CellError } from '../errors.ts'
import { parseJson } from '../service/json/exact-json.ts'
import type { HttpRequest } from './http-message.ts'

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

/** How the reading of a body is bounded. */
export interface BodyReading {
  bytesMax: number
  /** Leaves the bytes as they are. */
  passesOn: boolean
  /** Told how long the body is or has become, before that much is kept. */
  onBytes(bytes: number): void
}

/** No body that the node itself reads needs more: to parse it must not hold up others. */
const OWN_BYTES_MAX = 65_536

/**
 * Reads a JSON body. An empty one counts as `{}` and needs no Content-Type.
 *
 * @throws `unsupported_media_type`, `body_too_large`, what `onBytes` throws, `invalid_json` unless it is passed on, in this order
 */
export async function readJson(
  request: HttpRequest,
  { bytesMax, passesOn, onBytes }: BodyReading,
): Promise<JsonBody> {
  const { contentLength } = request
  if (contentLength === 0) return { value: {} }
  const isJson = isJsonType(request.header('content-type') ?? '')
  if (!isJson && contentLength !== undefined) throw notJson()
  const max = passesOn ? bytesMax : Math.min(bytesMax, OWN_BYTES_MAX)
  if (contentLength !== undefined && contentLength > max) throw bodyTooLarge(max)
  // Before anything is read: a body that waits for its last byte takes the memory of a whole one.
  if (contentLength !== undefined) onBytes(contentLength)
  const body = await (isJson ? request.readBody(max, onBytes) : readNothing(request))
  if (body.kind === 'parsed') return { value: body.value, isParsed: true }
  const { bytes } = body
  if (bytes.length === 0) return { value: {} }
  return passesOn ? { bytes } : { value: parseJson(bytes) }
}
export function bodyTooLarge(bytesMax: number): CellError {
  const why = bytesMax === OWN_BYTES_MAX ? ', the most that this route takes' : ' (http.bodyBytesMax)'
  return new CellError('body_too_large', `The body is larger than ${bytesMax} bytes${why}.`, {
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

function notJson(): CellError {
  return new CellError(
    'unsupported_media_type',
    'The body must be JSON in UTF-8. Send Content-Type: application/json.',
  )
}
