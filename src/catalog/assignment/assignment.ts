/** Cells are assigned to nodes by ranges of their ids: the first three hexadecimal digits. */
export const RANGES = 4_096
const DIGITS = 3

/** A stretch of ranges, both ends included. */
export interface RangeSpan {
  lo: number
  hi: number
}

/** The last object of a node's log, as `LogNumber`. */
export interface LogEnd {
  epoch: number
  number: number
}

/** A time in which a range was a node's. It has ended. */
export interface PastTenure {
  tenure: number
  node: string
  /** Where the node's log lies in the object store. Empty: as that of a store that ran alone. */
  prefix: string
  /** What the node's log has of the range's cells after this object is void. Null: its log has nothing of them. */
  lastLog: LogEnd | null
  /** Epoch milliseconds: no version of the tenure has a later stamp. One that has is void. */
  stampBound: number
}

export interface AssignedSpan extends RangeSpan {
  /** Counts the owners that a range has had. */
  tenure: number
  /** The node that has it. */
  node: string
  /** The assignment that gave it to this node. */
  since: number
  /** Oldest first. */
  before: PastTenure[]
}

/** Which node has which cells. Of all that are stored, the one with the highest number counts (C1). */
export interface Assignment {
  format: 1
  /** From 1 on, without gaps. */
  n: number
  /** `alone`: the one node of a store without a cluster. */
  mode: 'cluster' | 'alone'
  /** Where each node that has ranges writes its log: by its id. */
  prefixes: Record<string, string>
  /** In order, without gaps. */
  ranges: AssignedSpan[]
}

/** The range of a cell. @param cellId a lower-case UUID */
export function rangeOf(cellId: string): number {
  return Number.parseInt(cellId.slice(0, DIGITS), 16)
}

/** An id in a range: a UUID with other first digits is as valid. */
export function withRange(cellId: string, range: number): string {
  return range.toString(16).padStart(DIGITS, '0') + cellId.slice(DIGITS)
}

export function isInSpans(range: number, spans: readonly RangeSpan[]): boolean {
  return spans.some(({ lo, hi }) => range >= lo && range <= hi)
}

/** The first assignment of a store: one node has all. @param prefix of the node */
export function firstAssignment(node: string, prefix: string): Assignment {
  const all = { lo: 0, hi: RANGES - 1, tenure: 1, node, since: 1, before: [] }
  return { format: 1, n: 1, mode: 'cluster', prefixes: { [node]: prefix }, ranges: [all] }
}

/** Ranges that get another owner. */
export interface Move extends RangeSpan {
  /** Who gets them. */
  node: string
  prefix: string
  /** The end of the tenure that they leave. */
  end: Pick<PastTenure, 'lastLog' | 'stampBound'>
}

/** The next assignment. A span whose node stays the same goes on as it was, whatever the move's end says. */
export function afterMoves(before: Assignment, moves: readonly Move[]): Assignment {
  const n = before.n + 1
  const ranges: AssignedSpan[] = []
  for (const span of before.ranges) {
    for (const part of cut(span, moves)) {
      const move = moves.find(({ lo, hi }) => part.lo >= lo && part.lo <= hi)
      ranges.push(move === undefined || move.node === part.node ? part : moved(part, move, before, n))
    }
  }
  const prefixes: Record<string, string> = {}
  for (const { node } of ranges) {
    const prefix = moves.find((move) => move.node === node)?.prefix ?? before.prefixes[node]
    if (prefix !== undefined) prefixes[node] = prefix
  }
  return { ...before, n, prefixes, ranges: merged(ranges) }
}

/** Parts that each lie in one move, or in none. */
function cut(span: AssignedSpan, moves: readonly Move[]): AssignedSpan[] {
  const begins = new Set([span.lo])
  for (const { lo, hi } of moves)
    for (const at of [lo, hi + 1]) if (at > span.lo && at <= span.hi) begins.add(at)
  const sorted = [...begins].sort((a, b) => a - b)
  return sorted.map((lo, i) => ({ ...span, lo, hi: (sorted[i + 1] ?? span.hi + 1) - 1 }))
}

function moved(
  { lo, hi, tenure, node, before }: AssignedSpan,
  move: Move,
  { prefixes }: Assignment,
  since: number,
): AssignedSpan {
  const past: PastTenure = { tenure, node, prefix: prefixes[node] ?? '', ...move.end }
  return { lo, hi, tenure: tenure + 1, node: move.node, since, before: [...before, past] }
}

/** Neighbours that are equal but for their place become one. */
function merged(ranges: readonly AssignedSpan[]): AssignedSpan[] {
  const result: AssignedSpan[] = []
  for (const span of ranges) {
    const last = result.at(-1)
    if (last !== undefined && sameHistory(last, span)) result[result.length - 1] = { ...last, hi: span.hi }
    else result.push(span)
  }
  return result
}

function sameHistory(
  { lo: _, hi: __, ...a }: AssignedSpan,
  { lo: ___, hi: ____, ...b }: AssignedSpan,
): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/**
 * Where the logs lie of nodes that have no ranges any more, as far as a node is to remove what nobody needs of them: the one that has the
 * last of the ranges that they had.
 *
 * @param prefix of the node
 */
export function logsLeftTo({ ranges, prefixes }: Assignment, prefix: string): string[] {
  const owners = new Set(Object.values(prefixes))
  const heirs = new Map<string, string>()
  for (const { node, before } of ranges) for (const past of before) heirs.set(past.prefix, node)
  return [...heirs]
    .filter(([left, node]) => !owners.has(left) && prefixes[node] === prefix)
    .map(([left]) => left)
}

/** The spans of a node, in order. */
export function spansOf({ ranges }: Assignment, node: string): AssignedSpan[] {
  return ranges.filter((span) => span.node === node)
}

/** The span that has a cell. */
function spanOf({ ranges }: Assignment, cellId: string): AssignedSpan {
  const range = rangeOf(cellId)
  let low = 0
  for (let high = ranges.length - 1; low < high; ) {
    const middle = (low + high + 1) >> 1
    if ((ranges[middle] as AssignedSpan).lo <= range) low = middle
    else high = middle - 1
  }
  return ranges[low] as AssignedSpan
}

/** A time in which a cell was a node's; of the last one, which goes on, the end is undefined. */
export interface Tenure {
  tenure: number
  node: string
  prefix: string
  lastLog: LogEnd | null | undefined
  /** Epoch milliseconds: its versions have later stamps. */
  stampsAfter: number
  /** Epoch milliseconds. */
  stampBound: number | undefined
}

/** The tenures of a cell, oldest first. */
export function tenuresOf(assignment: Assignment, cellId: string): Tenure[] {
  const { before, tenure, node } = spanOf(assignment, cellId)
  const prefix = assignment.prefixes[node] ?? ''
  const now = { tenure, node, prefix, lastLog: undefined, stampBound: undefined }
  let stampsAfter = 0
  return [...before, now].map((each) => {
    const known = { ...each, stampsAfter }
    if (each.stampBound !== undefined) stampsAfter = Math.max(stampsAfter, each.stampBound)
    return known
  })
}
