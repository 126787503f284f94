import type { KillRate } from './kill-budget.ts'
import type { KillReason } from './lost-worker.ts'
import type { ProbationTimes } from './probation.ts'
import { chargedFor } from './running-work.ts'
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
   * Bytes of SQL text in the schemas of all cells that a worker has open, in which accounts have equal parts. By default a
   * 64th of `memoryMax`: opened, a schema takes up to 32 times as much memory.
   */
  openSchemaBytesMax?: number | undefined
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

export interface KillOptions {
  /** Whether the cell of a statement that holds up others can get a worker of its own. */
  canIsolate: boolean
  /** Checks memory also while no statement runs. */
  checksMemory: boolean
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
  { canIsolate, checksMemory }: KillOptions,
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
  if (ranMs <= holdMs) return undefined
  if (signal?.aborted === true) return 'abandoned'
  return canIsolate && slot.holdsUpOthers(work) ? 'held-up' : undefined
}
