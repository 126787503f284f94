import type { WorkerHandle } from '../processes/worker-process.ts'
import type { QueuedOperation } from './queued-operation.ts'

/** Whose time it is, and how much of it there may be. */
export type Charged = Pick<QueuedOperation, 'cellId' | 'accountId' | 'statementMs' | 'signal'>

/** What a worker does for an operation: one of its statements, the COMMIT of its transaction, or other work. */
export interface RunningStatement {
  kind: 'statement' | 'commit' | 'overhead'
  operation: QueuedOperation
  /** Monotonic. */
  since: number
  /** The worker's `waitedMs`, or `processorMs`, at the first check: see {@link ranMs}. */
  countedFrom?: number | undefined
  /** Bytes of the cell's write-ahead log at the first check. */
  logFrom?: number | undefined
}

/** What a worker does for a cell outside of its operations: a task, or the closing of the cell to make room. */
export interface RunningTask {
  kind: 'task'
  cell: Charged
  since: number
  countedFrom?: number | undefined
}

export type RunningWork = RunningStatement | RunningTask

export function chargedFor(work: RunningWork): Charged {
  return work.kind === 'task' ? work.cell : work.operation
}

/**
 * Bytes by which the cell's write-ahead log has grown since the first check: a transaction that does not fit into the cell's cache is
 * written there before it is committed.
 */
export function loggedBytes(work: RunningWork, logBytes: (cellId: string) => number): number {
  if (work.kind !== 'statement' && work.kind !== 'commit') return 0
  const bytes = logBytes(work.operation.cellId)
  work.logFrom ??= bytes
  return bytes - work.logFrom
}

/**
 * Milliseconds that it has run. Of a statement, time in which its worker had no processor does not count, from the first
 * check of the statement on: a busy machine must not cause kills. Of all other work only processor time counts, from the
 * first check on: a slow disk must not cause kills either.
 */
export function ranMs(work: RunningWork, worker: WorkerHandle | undefined, now: number): number {
  if (work.kind !== 'statement') {
    const processorMs = worker?.processorMs() ?? 0
    work.countedFrom ??= processorMs
    return processorMs - work.countedFrom
  }
  const waitedMs = worker?.waitedMs() ?? 0
  work.countedFrom ??= waitedMs
  return now - work.since - (waitedMs - work.countedFrom)
}
