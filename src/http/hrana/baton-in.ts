import { CellError } from '../../errors.ts'
import type { JsonBody } from '../body/request-body.ts'

const [QUOTE, BACKSLASH, COLON] = [0x22, 0x5c, 0x3a]
const [OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d]
const NAME = Buffer.from('"baton"')
/** A baton is shorter. */
const BATON_BYTES_MAX = 512
const VALUE = /^\s*:\s*(?:null|"([^"\\]*)")\s*[,}]/

/**
 * The baton of a request of Hrana. Whoever has the cell reads the body; the node has to know the stream before that, and all clients
 * write the baton first.
 *
 * @returns undefined if there is none
 * @throws `invalid_request`
 */
export function batonIn({ bytes, value }: JsonBody): string | undefined {
  const sent = bytes === undefined ? (Object(value) as { baton?: unknown }).baton : batonOf(bytes)
  if (sent === undefined || sent === null) return undefined
  if (typeof sent === 'string') return sent
  throw noBaton()
}

/** A member of the body itself, and not of anything in it. */
function batonOf(json: Uint8Array): string | undefined {
  let depth = 0
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case QUOTE: {
        const end = endOfString(json, at)
        if (depth === 1 && isName(json, at, end)) return valueAt(json, end + 1)
        at = end
        break
      }
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth++
        break
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth--
    }
  }
  return undefined
}

/** Of a member: a value that reads so is followed by no colon. */
function isName(json: Uint8Array, start: number, end: number): boolean {
  if (end - start + 1 !== NAME.length || Buffer.compare(json.subarray(start, end + 1), NAME) !== 0)
    return false
  for (let at = end + 1; at < json.length; at++) {
    const byte = json[at] as number
    if (byte > 0x20) return byte === COLON
  }
  return false
}

function valueAt(json: Uint8Array, at: number): string | undefined {
  const found = VALUE.exec(Buffer.from(json.subarray(at, at + BATON_BYTES_MAX)).toString('latin1'))
  if (found === null) throw noBaton()
  return found[1]
}

/** Where a string's closing quote is; the end if there is none. */
function endOfString(json: Uint8Array, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === BACKSLASH) at++
    else if (json[at] === QUOTE) return at
  }
  return json.length
}

function noBaton(): CellError {
  const message = 'baton must be null, or that of the answer before.'
  return new CellError('invalid_request', message, { field: 'baton' })
}
