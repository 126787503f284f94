import * as z from 'zod'
import { noted } from './schema-notes.ts'

/** The types of fields in answers, for the OpenAPI document; encoders have their types. */

export const time = noted(z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/), {
  id: 'Time',
  format: 'date-time',
  description: 'RFC 3339 in UTC with milliseconds.',
})

export const count = z.int().min(0)

export const duration = noted(z.number().min(0), { description: 'Milliseconds, to the microsecond.' })

export const uuid = noted(z.string(), { format: 'uuid' })

/** Seconds left, rounded up. */
export const ttlLeft = noted(z.int().min(-1), {
  id: 'TtlLeft',
  description: 'Whole seconds left, rounded up; -1 if the entry does not expire.',
})

/** A number while that is exact. */
export const wideInteger = noted(z.union([z.int(), z.string().regex(/^-?\d+$/)]), {
  id: 'WideInteger',
  description: 'A number within ±(2^53−1), and beyond that a string of its digits.',
})

export const nextCursor = noted(z.string().nullable(), {
  description: 'The cursor of the next page; null on the last one.',
})
