import * as z from 'zod'
import { type Assignment, RANGES } from './assignment.ts'

const place = z
  .int()
  .min(0)
  .max(RANGES - 1)
const pastTenure = z.object({
  tenure: z.int().positive(),
  node: z.string().min(1),
  prefix: z.string(),
  lastLog: z.object({ epoch: z.int().positive(), number: z.int().positive() }).nullable(),
  stampBound: z.number(),
})
const assignment: z.ZodType<Assignment> = z.object({
  format: z.literal(1),
  n: z.int().positive(),
  mode: z.enum(['cluster', 'alone']),
  prefixes: z.record(z.string(), z.string()),
  ranges: z.array(
    z.object({
      lo: place,
      hi: place,
      tenure: z.int().positive(),
      node: z.string().min(1),
      since: z.int().positive(),
      before: z.array(pastTenure),
    }),
  ),
})

/** @returns undefined if it is none: it has another form, or its ranges leave out some */
export function parseAssignment(content: unknown): Assignment | undefined {
  const { data } = assignment.safeParse(content)
  return data !== undefined && isComplete(data) ? data : undefined
}

function isComplete({ ranges, prefixes }: Assignment): boolean {
  let next = 0
  for (const { lo, hi, node } of ranges) {
    if (lo !== next || hi < lo || prefixes[node] === undefined) return false
    next = hi + 1
  }
  return next === RANGES
}
