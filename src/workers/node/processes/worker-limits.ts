import type { MemoryBound } from '../../../engine/open-memory.ts'

export interface WorkerLimits {
  /** Milliseconds that a statement may hold up operations on other cells. */
  blockMs: number
  /** Milliseconds after which a batch starts no further operation: others may wait for the worker. */
  sliceMs: number
  /** Milliseconds that an account runs in the slow worker after it has cost a worker. */
  slowWorkerMs: number
  /** Milliseconds without a message while no statement runs: during an fsync, for example. */
  silentMs: number
  /** Bytes of memory that a worker may use. */
  memoryMax: number
  /** Workers that may be ended for the cells of one account in a minute, in the long run; for one cell a third of them. */
  killsPerMinute: number
  /** How many of them at once. */
  killsBurst: number
}

/** The limits of `cellstore serve`, which sets `memoryMax` alone. */
export const DEFAULT_WORKER_LIMITS: WorkerLimits = {
  blockMs: 40,
  sliceMs: 20,
  slowWorkerMs: 600_000,
  silentMs: 30_000,
  memoryMax: 1_073_741_824,
  killsPerMinute: 6,
  killsBurst: 10,
}

/** A worker that keeps so much has too little left for the next statement. */
const NEAR_END_SHARE = 3 / 4
/** Half of a worker's memory is for what runs, and so much of the other half for the process itself: measured, 85 MB and more. */
const PROCESS_BYTES = 80 * 1_048_576
const OPEN_CELLS_SHARE_MIN = 1 / 8

/** What a worker is told of its memory. Open cells that took all of it would end it with each statement. */
export function memoryBound({ memoryMax }: Pick<WorkerLimits, 'memoryMax'>): MemoryBound {
  const bytesMax = Math.max(memoryMax / 2 - PROCESS_BYTES, OPEN_CELLS_SHARE_MIN * memoryMax)
  return { bytesMax, nearEndBytes: NEAR_END_SHARE * memoryMax }
}
