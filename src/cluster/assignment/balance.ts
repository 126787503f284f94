/** What a node has to do. */
export interface NodeLoad {
  id: string
  ranges: number
  busyCells: number
}

/** A range alone is a small load: so that nodes without cells share them, too, and busy cells count far more. */
const RANGE_LOAD = 1 / 16
/** Nodes whose loads differ by no more than that share of the mean, or that many cells, are left alone. */
const SLACK_SHARE = 0.2
const SLACK_CELLS = 8

/** A node gives a part of its load to another one. */
export interface LoadMove {
  from: string
  to: string
  /** As {@link loadOf}. */
  load: number
}

export function loadOf({ ranges, busyCells }: Omit<NodeLoad, 'id'>): number {
  return busyCells + ranges * RANGE_LOAD
}

/**
 * The move that levels the two nodes which differ most; undefined if all are about level. All nodes find the same one, and the node
 * that has to give acts: so there is one at a time.
 */
export function levelingMove(nodes: readonly NodeLoad[]): LoadMove | undefined {
  const sorted = nodes
    .map(({ id, ...of }) => ({ id, load: loadOf(of) }))
    .sort((a, b) => b.load - a.load || (a.id < b.id ? -1 : 1))
  const [most, least] = [sorted.at(0), sorted.at(-1)]
  if (most === undefined || least === undefined) return undefined
  const mean = sorted.reduce((sum, { load }) => sum + load, 0) / sorted.length
  const difference = most.load - least.load
  if (difference <= Math.max(SLACK_SHARE * mean, SLACK_CELLS)) return undefined
  return { from: most.id, to: least.id, load: difference / 2 }
}

/**
 * Chooses ranges of a node with about a load in all, neighbours as far as possible: so tables stay short.
 *
 * @param owned the node's ranges, ascending
 * @param busyIn busy cells in a range
 */
export function chooseRanges(
  owned: readonly number[],
  load: number,
  busyIn: (range: number) => number,
): number[] {
  const chosen: number[] = []
  let sum = 0
  for (const range of owned.toReversed()) {
    const more = loadOf({ ranges: 1, busyCells: busyIn(range) })
    // A range with many busy cells can be more than what is to go: then it stays, unless it brings the nodes nearer.
    if (sum + more >= load + more / 2) continue
    chosen.push(range)
    sum += more
    if (sum >= load) break
  }
  return chosen.reverse()
}

/** Cuts ranges into moves that close few cells each: their requests wait meanwhile. */
export function batches(
  ranges: readonly number[],
  busyIn: (range: number) => number,
  busyMax: number,
): number[][] {
  const cut: number[][] = []
  let busy = 0
  for (const range of ranges) {
    const more = busyIn(range)
    const last = cut.at(-1)
    if (last === undefined || busy + more > busyMax) {
      cut.push([range])
      busy = more
    } else {
      last.push(range)
      busy += more
    }
  }
  return cut
}

/**
 * Shares ranges out among nodes, neighbours together, so that their loads are about level afterwards.
 *
 * @param ranges ascending
 * @param heirs at least one
 * @param busyCells of all these ranges: each counts for its part of them
 */
export function shareOut(
  ranges: readonly number[],
  heirs: readonly NodeLoad[],
  busyCells: number,
): Map<string, number[]> {
  const loads = heirs.map(({ id, ...of }) => ({ id, load: loadOf(of) })).sort((a, b) => a.load - b.load)
  // Poured like water: the lightest get most.
  const total = loadOf({ ranges: ranges.length, busyCells })
  const loadOfEach = total / Math.max(1, ranges.length)
  let level = 0
  for (let count = 1, sum = 0; count <= loads.length; count++) {
    sum += loads[count - 1]?.load ?? 0
    level = (sum + total) / count
    if (level <= (loads[count]?.load ?? Number.POSITIVE_INFINITY)) break
  }
  const shared = new Map<string, number[]>()
  let at = 0
  let due = 0
  for (const [i, { id, load }] of loads.entries()) {
    due += Math.max(0, level - load) / loadOfEach
    const end = i === loads.length - 1 || due >= ranges.length - 0.5 ? ranges.length : Math.round(due)
    if (end > at) shared.set(id, ranges.slice(at, end))
    at = end
  }
  return shared
}
