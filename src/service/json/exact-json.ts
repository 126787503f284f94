import { isUtf8 } from 'node:buffer'
import { CellError } from '../../errors.ts'

/** Every integer of fewer digits is exact in a double. */
const UNSAFE_DIGITS_MIN = 16
/** Most bodies hold no such run of digits, and are parsed as they are. */
const PERHAPS_UNSAFE = /\d{16}/
const [QUOTE, BACKSLASH, ZERO, NINE] = [0x22, 0x5c, 0x30, 0x39]
const BLANKS = ' \t\n\r'
const BEFORE_VALUE = `[,:${BLANKS}`
const AFTER_VALUE = ',]}'

/**
 * Parses JSON without rounding: an integer beyond ±(2^53−1) becomes the typed form that parameters have anyway,
 * `{"type":"integer","value":"…"}`. Only the text of such integers is changed before it is parsed. A reviver, which could
 * do the same, is called for every element, and takes fifty times as long as the parsing.
 *
 * @throws `invalid_json`
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw invalidJson('The body is not UTF-8.')
  const text = withoutByteOrderMark(
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'),
  )
  try {
    return JSON.parse(PERHAPS_UNSAFE.test(text) ? withTypedIntegers(text) : text)
  } catch {
    throw invalidJson('The body is not JSON.')
  }
}

/** What is no JSON stays none: an integer is replaced only where any other value could stand too, and never on its own. */
function withTypedIntegers(text: string): string {
  let typed = ''
  let copied = 0
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (!isDigit(code)) at++
    else {
      const end = endOfDigits(text, at)
      if (end - at >= UNSAFE_DIGITS_MIN && isUnsafeInteger(text, at, end)) {
        const start = text[at - 1] === '-' ? at - 1 : at
        typed += `${text.slice(copied, start)}{"type":"integer","value":"${text.slice(start, end)}"}`
        copied = end
      }
      at = end
    }
  }
  return typed + text.slice(copied)
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) return at + 1
  }
  return text.length
}

function endOfDigits(text: string, start: number): number {
  let end = start
  while (isDigit(text.charCodeAt(end))) end++
  return end
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}

/** Whether these digits are a whole value of a list or an object, and not the part of a fraction. */
function isUnsafeInteger(text: string, at: number, end: number): boolean {
  if (text.charCodeAt(at) === ZERO) return false
  if (end - at === UNSAFE_DIGITS_MIN && Number.isSafeInteger(Number(text.slice(at, end)))) return false
  const before = text[at - 1] === '-' ? at - 2 : at - 1
  if (!BEFORE_VALUE.includes(text[before] ?? '?')) return false
  let next = end
  while (BLANKS.includes(text[next] ?? '?')) next++
  return AFTER_VALUE.includes(text[next] ?? '?')
}

function withoutByteOrderMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

function invalidJson(message: string): CellError {
  return new CellError('invalid_json', message)
}
