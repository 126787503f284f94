import type { KillReason, WorkerSlot } from './worker-slot.ts'

export interface WorkerLimits {
  /** Milliseconds that a statement may hold up operations on other cells. */
  holdMs: number
  /** Milliseconds that a cell stays isolated after its last statement that took longer than that. */
  isolationMs: number
  /** Milliseconds that a worker may stay silent while it is no statement that takes the time: an fsync, say. */
  silentMs: number
  /** Bytes of memory that a worker may use. */
  memoryMax: number
}

/** A worker is ended before it has all of its memory: until the next look, a statement can take as much as the rest. */
const MEMORY_SHARE = 7 / 8

export interface KillOptions {
  /** Whether the cell of a statement that holds up others can get a worker of its own. */
  canIsolate: boolean
  /** Also while no statement runs. */
  checksMemory: boolean
}

/**
 * Whether a slot's worker has to be ended, and why. A statement can't be interrupted, only the process that runs it. Time
 * counts against a statement only while it runs itself: on a slow disk, commits must not become a storm of kills.
 */
export function killReason(
  slot: WorkerSlot,
  { holdMs, silentMs, memoryMax }: WorkerLimits,
  now: number,
  { canIsolate, checksMemory }: KillOptions,
): KillReason | undefined {
  const { statement, worker } = slot
  if (worker === undefined) return undefined
  const isChecked = checksMemory || statement !== undefined
  if (isChecked && worker.residentBytes() > memoryMax * MEMORY_SHARE) return 'memory'
  if (statement === undefined) return slot.silentMs(now) > silentMs ? 'silent' : undefined
  const ranMs = slot.ranMs(statement, now)
  const { operation } = statement
  if (ranMs > operation.statementMs) return 'timeout'
  if (ranMs <= holdMs) return undefined
  if (operation.signal?.aborted === true) return 'abandoned'
  return canIsolate && slot.holdsUpOthers(statement) ? 'held-up' : undefined
}
