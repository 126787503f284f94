import type { MemoryBound } from '../../engine/open-memory.ts'
import type { KillRate } from './kill-budget.ts'
import type { KillReason } from './lost-worker.ts'
import type { ProbationTimes } from './probation.ts'
import { chargedFor, loggedBytes } from './running-work.ts'
import type { WorkerSlot } from './worker-slot.ts'

export interface WorkerLimits extends KillRate, ProbationTimes {
  /** Isolated cells of one account that run at the same time. By default all but one of those that can. */
  isolatedPerAccount?: number | undefined
  /** Milliseconds that a statement may hold up operations on other cells. */
  holdMs: number
  /** Milliseconds after which a batch starts no further operation: others may wait for the worker. */
  sliceMs: number
  /** Milliseconds that a cell stays isolated after its last statement that took longer than `holdMs`. */
  isolationMs: number
  /** Milliseconds without a message while no statement runs: during an fsync, for example. */
  silentMs: number
  /** Bytes of memory that a worker may use. */
  memoryMax: number
  /**
   * Bytes of memory above which a worker closes cells, until those that are open can take no more than so much; accounts have
   * equal parts of it. By default half of `memoryMax`, less 80 MiB.
   */
  openCellsMemoryMax?: number | undefined
}

/** The limits of `cellstore serve`, unless its flags say otherwise. */
export const DEFAULT_WORKER_LIMITS: WorkerLimits = {
  holdMs: 40,
  sliceMs: 20,
  isolationMs: 30_000,
  silentMs: 30_000,
  memoryMax: 1_073_741_824,
  killsPerMinute: 6,
  killsBurst: 10,
  trialMs: 10_000,
  probationMs: 600_000,
}

/** Share of `memoryMax` at which a worker is killed. A statement can take the rest before the next check. */
const MEMORY_SHARE = 7 / 8
/** A worker that keeps so much has too little left for the next statement. */
const NEAR_END_SHARE = 3 / 4
/** Half of a worker's memory is for what runs, and so much of the other half for the process itself: measured, 85 MB and more. */
const PROCESS_BYTES = 80 * 1_048_576
const OPEN_CELLS_SHARE_MIN = 1 / 8

/** What a worker is told of its memory. Open cells that took all of it would end it with each statement. */
export function memoryBound({ memoryMax, openCellsMemoryMax }: WorkerLimits): MemoryBound {
  const byDefault = Math.max(memoryMax / 2 - PROCESS_BYTES, OPEN_CELLS_SHARE_MIN * memoryMax)
  const nearEndBytes = NEAR_END_SHARE * memoryMax
  return { bytesMax: Math.min(openCellsMemoryMax ?? byDefault, nearEndBytes), nearEndBytes }
}

export interface KillOptions {
  /** Whether the cell of a statement that holds up others can get a worker of its own. */
  canIsolate: boolean
  /** Checks memory also while no statement runs. */
  checksMemory: boolean
  /** Bytes that a statement may add to its cell's write-ahead log. */
  logBytesMax: number
  /** Bytes of a cell's write-ahead log. */
  logBytes(cellId: string): number
}

/**
 * Whether to kill a slot's worker, and why. SQLite statements can't be interrupted here, so the process is killed. All
 * that a worker does for an operation or a cell counts, except its waits for the disk outside of a statement: otherwise a
 * slow disk would turn commits into a series of kills.
 */
export function killReason(
  slot: WorkerSlot,
  { holdMs, silentMs, memoryMax }: WorkerLimits,
  now: number,
  { canIsolate, checksMemory, logBytesMax, logBytes }: KillOptions,
): KillReason | undefined {
  const { work, worker } = slot
  if (worker === undefined) return undefined
  const isChecked = checksMemory || work !== undefined
  if (isChecked && worker.residentBytes() > memoryMax * MEMORY_SHARE) return 'memory'
  if (slot.silentMs(now) > silentMs) return 'silent'
  if (work === undefined) return undefined
  const ranMs = slot.ranMs(work, now)
  const { statementMs, signal } = chargedFor(work)
  if (ranMs > statementMs) return 'timeout'
  if (loggedBytes(work, logBytes) > logBytesMax) return 'log'
  if (ranMs <= holdMs) return undefined
  if (signal?.aborted === true) return 'abandoned'
  return canIsolate && slot.holdsUpOthers(work) ? 'held-up' : undefined
}
