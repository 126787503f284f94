import { type Assignment, type RangeSpan, spansOf } from '../../catalog/assignment/assignment.ts'

/** A node's ranges, ascending. */
export function rangesOf(assignment: Assignment, node: string): number[] {
  return spansOf(assignment, node).flatMap(({ lo, hi }) =>
    Array.from({ length: hi - lo + 1 }, (_, i) => lo + i),
  )
}

/** The node of each range. */
export function ownersOf({ ranges }: Assignment): readonly string[] {
  return ranges.flatMap(({ lo, hi, node }) => new Array<string>(hi - lo + 1).fill(node))
}

/** @param ranges ascending */
export function toSpans(ranges: readonly number[]): RangeSpan[] {
  const spans: RangeSpan[] = []
  for (const range of ranges) {
    const last = spans.at(-1)
    if (last !== undefined && last.hi === range - 1) last.hi = range
    else spans.push({ lo: range, hi: range })
  }
  return spans
}
