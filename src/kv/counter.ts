import { CellError } from '../errors.ts'

/** The one spelling of each integer: no leading zero, no plus, no space. */
const CANONICAL_INTEGER = /^(0|-?[1-9]\d{0,18})$/

/** @throws `invalid_request` for anything but a whole number of 64 bits */
export function checkDelta(delta: number | bigint): bigint {
  const step = typeof delta === 'bigint' || Number.isSafeInteger(delta) ? BigInt(delta) : undefined
  if (step !== undefined && fits(step)) return step
  const what =
    step === undefined ? 'is a whole number: a safe integer or a bigint' : 'does not fit in 64 bits'
  throw new CellError('invalid_request', `delta ${what}.`, { field: 'delta' })
}

/**
 * @param text the counter's value; undefined if it does not exist yet
 * @throws `not_an_integer`, `integer_overflow`
 */
export function addTo(text: string | undefined, step: bigint): bigint {
  const sum = (text === undefined ? 0n : parseInteger(text)) + step
  if (fits(sum)) return sum
  throw new CellError('integer_overflow', 'The sum does not fit in 64 bits; the value is unchanged.', {
    field: 'delta',
  })
}

function parseInteger(text: string): bigint {
  if (CANONICAL_INTEGER.test(text)) {
    const value = BigInt(text)
    if (fits(value)) return value
  }
  throw new CellError(
    'not_an_integer',
    'The value is not a whole number of 64 bits in decimal; it is unchanged.',
    { field: 'key' },
  )
}

function fits(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value
}
