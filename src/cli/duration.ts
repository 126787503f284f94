import { CellError } from '../errors.ts'

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** Some ten thousand days: whoever means more means never. */
const AMOUNT_DIGITS_MAX = 9

/**
 * Reads a duration such as `30s`, `15m`, `24h` or `7d`. The unit is part of it: `15` could be meant as anything.
 *
 * @returns milliseconds
 * @throws `invalid_setting`
 */
export function parseDuration(text: string): number {
  const [, amount = '', unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  const ms = Number(amount) * (UNITS_MS[unit] ?? 0)
  if (ms > 0 && amount.length <= AMOUNT_DIGITS_MAX) return ms
  throw new CellError(
    'invalid_setting',
    'A duration is a whole number above 0 with its unit: 30s, 15m, 24h or 7d.',
  )
}
