import { CellError } from '../errors.ts'
import { parseJson } from '../service/json/exact-json.ts'

/** The usual spelling of an integer. 007 and +7 are text. */
const INTEGER = /^(0|-?[1-9]\d{0,18})$/
/** A number in JSON, with a fraction or an exponent. */
const REAL = /^-?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)$/

/**
 * A parameter on the command line, as JSON of the HTTP interface: what JSON takes for a number is one, `null` is NULL, and
 * everything else is text. A number that would not fit into 64 bits stays text, so that nothing of it is lost.
 */
export function typedParam(word: string): unknown {
  if (word === 'null') return null
  if (REAL.test(word)) return realParam(word)
  if (!INTEGER.test(word)) return word
  const integer = BigInt(word)
  return BigInt.asIntN(64, integer) === integer ? exactInteger(integer) : word
}

/**
 * Parameters in JSON. Integers keep all their digits.
 *
 * @throws `invalid_json`
 */
export function parseJsonParams(text: string): unknown {
  const params = parseJson(Buffer.from(text))
  if (typeof params === 'object' && params !== null) return params
  throw new CellError('invalid_json', 'The parameters must be a list or an object.')
}

/** REAL also where the value is whole, as SQLite reads 1.0 and 1e3. */
function realParam(word: string): unknown {
  const value = Number(word)
  return Number.isFinite(value) ? { type: 'real', value } : word
}

/** A number if JSON keeps it exact, otherwise the typed form. */
function exactInteger(integer: bigint): unknown {
  const number = Number(integer)
  return Number.isSafeInteger(number) ? number : { type: 'integer', value: integer.toString() }
}
