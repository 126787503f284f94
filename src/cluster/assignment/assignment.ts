import type { LogNumber } from '../../backup/versions/object-keys.ts'

/** Cells are assigned by the first three hexadecimal digits of their ids. */
export const RANGES = 4_096

/** Where what a node wrote of a range ends: what it has beyond that counts for nobody. */
export interface Tenure {
  /** Counts the owners of a range from 1. */
  tenure: number
  node: string
  /** Of the node's objects in the bucket. */
  prefix: string
  /** The last log object of that prefix that counts; null if none does. */
  lastLog: LogNumber | null
  /** Epoch milliseconds: no version of that tenure has a later stamp. */
  stampBound: number
}

/** Neighbouring ranges with the same owner and the same past. */
export interface AssignedRun {
  /** The first and the last of them: 0 to 4095. */
  lo: number
  hi: number
  tenure: number
  node: string
  /** The assignment that has begun the tenure. */
  since: { n: number }
  /** The tenures before it, the oldest first, for as long as their logs may be needed. */
  before: readonly Tenure[]
}

/**
 * Who has which cells. It is an object of the bucket that is made once, `assign/<n>`, and the one with the greatest number holds (C1).
 *
 * `alone`: the store has left its cluster, and one node has it without PostgreSQL.
 */
export interface AssignmentTable {
  /** Counts from 1 without gaps. */
  n: number
  mode: 'cluster' | 'alone'
  /** Ascending, and together they are all ranges. */
  ranges: readonly AssignedRun[]
  /** Of the nodes that have ranges: where their objects are in the bucket. */
  prefixes: Readonly<Record<string, string>>
}

/** So many tenures of a range stay on record. Versions cover what older ones had. */
const TENURES_MAX = 32

export function rangeOf(cellId: string): number {
  return Number.parseInt(cellId.slice(0, 3), 16)
}

/** An id of this range with the other digits of one. */
export function idInRange(cellId: string, range: number): string {
  return range.toString(16).padStart(3, '0') + cellId.slice(3)
}

/** One node has everything. */
export function firstAssignment(node: string, prefix: string): AssignmentTable {
  const run = { lo: 0, hi: RANGES - 1, tenure: 1, node, since: { n: 1 }, before: [] }
  return { n: 1, mode: 'cluster', ranges: [run], prefixes: { [node]: prefix } }
}

/** Which ranges go to a node. */
export interface Handover {
  ranges: readonly number[]
  to: string
  /** Of the new owner's objects. */
  prefix: string
}

/** Where the tenures of the old owner end. */
export type TenureEnd = Pick<Tenure, 'lastLog' | 'stampBound'>

/**
 * The assignment after this one. All ranges that go are of one node.
 *
 * @param from that node; what it does not own is left as it is
 */
export function reassigned(
  table: AssignmentTable,
  from: string,
  handovers: readonly Handover[],
  end: TenureEnd,
  mode: AssignmentTable['mode'] = table.mode,
): AssignmentTable {
  const n = table.n + 1
  const to = new Map(handovers.flatMap((each) => each.ranges.map((range) => [range, each.to] as const)))
  const prefixes = { ...table.prefixes, ...Object.fromEntries(handovers.map((each) => [each.to, each.prefix])) }
  const next: AssignedRun[] = []
  for (const run of table.ranges) {
    for (let range = run.lo; range <= run.hi; range++) {
      const owner = run.node === from ? (to.get(range) ?? from) : run.node
      append(next, owner === run.node ? { ...run, lo: range, hi: range } : moved(run, range, owner, n, table, end))
    }
  }
  const owners = new Set(next.map(({ node }) => node))
  const kept = Object.entries(prefixes).filter(([node]) => owners.has(node))
  return { n, mode, ranges: next, prefixes: Object.fromEntries(kept) }
}

function moved(
  run: AssignedRun,
  range: number,
  node: string,
  n: number,
  { prefixes }: AssignmentTable,
  end: TenureEnd,
): AssignedRun {
  const ended = { tenure: run.tenure, node: run.node, prefix: prefixes[run.node] ?? '', ...end }
  const before = [...run.before, ended].slice(-TENURES_MAX)
  return { lo: range, hi: range, tenure: run.tenure + 1, node, since: { n }, before }
}

/** Neighbours that are alike become one run. */
function append(runs: AssignedRun[], run: AssignedRun): void {
  const last = runs.at(-1)
  const isSame =
    last !== undefined &&
    last.node === run.node &&
    last.tenure === run.tenure &&
    last.since.n === run.since.n &&
    (last.before === run.before || JSON.stringify(last.before) === JSON.stringify(run.before))
  if (isSame) runs[runs.length - 1] = { ...last, hi: run.hi }
  else runs.push(run)
}

/** An assignment for look-ups. */
export class Assignment {
  readonly table: AssignmentTable
  readonly #runs: readonly AssignedRun[]

  constructor(table: AssignmentTable) {
    this.table = table
    const runs: AssignedRun[] = []
    for (const run of table.ranges) for (let range = run.lo; range <= run.hi; range++) runs[range] = run
    this.#runs = runs
  }

  get n(): number {
    return this.table.n
  }

  /** @throws if there is no such range */
  run(range: number): AssignedRun {
    const run = this.#runs[range]
    if (run === undefined) throw new RangeError(`There is no range ${range}`)
    return run
  }

  ownerOf(range: number): string {
    return this.run(range).node
  }

  /** A node's ranges, ascending. */
  rangesOf(node: string): number[] {
    return this.table.ranges
      .filter((run) => run.node === node)
      .flatMap(({ lo, hi }) => Array.from({ length: hi - lo + 1 }, (_, i) => lo + i))
  }

  get owners(): ReadonlySet<string> {
    return new Set(this.table.ranges.map(({ node }) => node))
  }
}
