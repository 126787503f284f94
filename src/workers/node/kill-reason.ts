import type { EndReason, Lane } from './worker-slot.ts'

export interface HostLimits {
  /** Milliseconds that a statement may hold up operations on other cells. */
  holdMs: number
  /** Milliseconds that a cell stays apart after its last statement that took longer than that. */
  apartMs: number
  /** Milliseconds that a host may stay silent while it is no statement that takes the time: an fsync, say. */
  silentMs: number
  /** Bytes of memory that a host may use. */
  memoryMax: number
}

/** A host is ended before it has all of its memory: until the next look, a statement can take as much as the rest. */
const MEMORY_SHARE = 7 / 8

export interface VerdictOptions {
  /** Whether the cell of a statement that holds up others can get a host of its own. */
  canSetApart: boolean
  /** Also while no statement runs. */
  looksAtMemory: boolean
}

/**
 * Whether a lane's host has to be ended, and why. A statement can't be interrupted, only the process that runs it. Time
 * counts against a statement only while it runs itself: on a slow disk, commits must not become a storm of kills.
 */
export function verdictOn(
  lane: Lane,
  { holdMs, silentMs, memoryMax }: HostLimits,
  now: number,
  { canSetApart, looksAtMemory }: VerdictOptions,
): EndReason | undefined {
  const { statement, host } = lane
  if (host === undefined) return undefined
  const isLookedAt = looksAtMemory || statement !== undefined
  if (isLookedAt && host.residentBytes() > memoryMax * MEMORY_SHARE) return 'memory'
  if (statement === undefined) return lane.silentMs(now) > silentMs ? 'silent' : undefined
  const ranMs = lane.ranMs(statement, now)
  const { operation } = statement
  if (ranMs > operation.statementMs) return 'timeout'
  if (ranMs <= holdMs) return undefined
  if (operation.signal?.aborted === true) return 'abandoned'
  return canSetApart && lane.holdsUpOthers(statement) ? 'held-up' : undefined
}
