import * as z from 'zod'
import { CellError } from '../../errors.ts'
import { checkedByHand } from './schema-notes.ts'

/** RFC 3339 UTC with milliseconds, from epoch milliseconds; null stays null. */
export function timeOf(epochMs: number): string
export function timeOf(epochMs: number | null): string | null
export function timeOf(epochMs: number | null): string | null {
  return epochMs === null ? null : new Date(epochMs).toISOString()
}

/** A duration in milliseconds, to the microsecond. */
export function durationOf(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

const RFC_3339 = z.iso.datetime({ offset: true })
const SHAPE = 'must be a time such as 2026-01-31T12:00:00Z'

/** A time in a body, as RFC 3339 has it: with or without a fraction, and with any offset. See {@link decodeTime}. */
export const time = checkedByHand(z.string({ error: SHAPE }), () => RFC_3339)

/** @returns epoch milliseconds; of a longer fraction the rest is cut @throws `invalid_request` for a time that is none */
export function decodeTime(text: string, field: string): number {
  if (RFC_3339.safeParse(text).success) return Date.parse(text)
  throw new CellError('invalid_request', `${field} ${SHAPE}.`, { field })
}
