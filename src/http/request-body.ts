import { CellError } from '../errors.ts'
import { parseJson } from './exact-json.ts'
import type { HttpRequest } from './http-message.ts'

/** `application/json`, and the types that say they are JSON by their suffix. */
const JSON_TYPE = /^\s*application\/(?:[\w!#$&^.+-]+\+)?json\s*(?:;|$)/i
const CHARSET = /;\s*charset\s*=\s*"?([^\s";]*)/i

export interface JsonBody {
  value: unknown
  /** False if a framework parsed the body, so that integers beyond ±(2^53−1) may have been rounded. */
  exact: boolean
}

const EMPTY: JsonBody = { value: {}, exact: true }

/**
 * Reads a JSON body. An empty one counts as `{}` and needs no Content-Type.
 *
 * @param onBytes told how long the body is or has become, before that much is kept
 * @throws `unsupported_media_type`, `body_too_large`, what `onBytes` throws, `invalid_json`, in this order
 */
export async function readJson(
  request: HttpRequest,
  bytesMax: number,
  onBytes: (bytes: number) => void,
): Promise<JsonBody> {
  const { contentLength } = request
  if (contentLength === 0) return EMPTY
  const isJson = isJsonType(request.header('content-type') ?? '')
  if (!isJson && contentLength !== undefined) throw notJson()
  if (contentLength !== undefined && contentLength > bytesMax) throw bodyTooLarge(bytesMax)
  // Before anything is read: a body that waits for its last byte takes the memory of a whole one.
  if (contentLength !== undefined) onBytes(contentLength)
  const body = await (isJson ? request.readBody(bytesMax, onBytes) : readNothing(request))
  if (body.kind === 'parsed') return { value: body.value, exact: false }
  return body.bytes.length === 0 ? EMPTY : { value: parseJson(body.bytes), exact: true }
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

function notJson(): CellError {
  return new CellError(
    'unsupported_media_type',
    'The body must be JSON in UTF-8. Send Content-Type: application/json.',
  )
}
