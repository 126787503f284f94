import { RANGES } from '../../src/catalog/assignment/assignment.ts'
import type { SimulationSettings } from './surroundings.ts'

/** Nodes that look at all others with each beat; the rest do so with each tenth. */
const WATCHERS = 16
const BEATS_PER_LOOK = 10
const PING_MS = 1_000
/** Of the node's record, on average. */
const RECORD_EVERY_S = 65
const HOUR_S = 3_600
const [PUT_PRICE, GET_PRICE] = [0.005 / 1_000, 0.0004 / 1_000]
const MONTH_H = 720

/** What docs/cluster.md calculates. @param lost so many nodes at once */
export function calculated(
  { nodes, cells, ttlMs, lagMs, bucketMs, postgresMs }: SimulationSettings,
  lost = 1,
) {
  const beats = nodes / (ttlMs / 3_000)
  const watchers = Math.min(nodes, WATCHERS)
  const looks = (watchers + (nodes - watchers) / BEATS_PER_LOOK) / (ttlMs / 3_000)
  const logs = (nodes * HOUR_S) / (lagMs / 1_000)
  const records = (nodes * HOUR_S) / RECORD_EVERY_S
  const puts = logs + records
  // At its own fence: every sixth of the time to live, after each PUT of the log, and before a record, which is looked for, too.
  const gets = (nodes * HOUR_S) / (ttlMs / 6_000) + logs + 2 * records
  const beatMs = ttlMs / 3
  // The last beat was half a round ago (of several nodes, less ago of one of them); the first watcher sees it, waits for the time to live,
  // and asks.
  const declaredMs = ttlMs - beatMs / (lost + 1) + beatMs / (watchers + 1) + PING_MS + 4 * bucketMs
  const fencedMs = declaredMs + 5 * bucketMs
  const assignedMs = fencedMs + ttlMs / 2 + 11 * bucketMs
  return {
    beats,
    statements: beats + looks,
    rows: looks * nodes,
    puts,
    gets,
    monthly: (puts * PUT_PRICE + gets * GET_PRICE) * MONTH_H,
    declaredMs,
    fencedMs,
    assignedMs,
    // The assignment is put, the catalog changed in four round trips, and each node takes it in, in four.
    knownMs: assignedMs + 9 * postgresMs,
    lostCells: (cells / nodes) * lost,
    ...sharesOf(nodes, lost, cells / RANGES),
  }
}

/** Each of the nodes that are left gets as many ranges, or one more. */
function sharesOf(nodes: number, lost: number, cellsOfRange: number) {
  const ranges = Math.round((RANGES / nodes) * lost)
  const takers = Math.min(nodes - lost, ranges)
  return { takers, cellsOfTaker: Math.ceil(ranges / takers) * cellsOfRange }
}
