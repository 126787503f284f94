import { CellError } from '../../errors.ts'
import type { KillReason } from './lost-worker.ts'
import type { QueuedOperation } from './queued-operation.ts'

/** What happens to an operation whose worker ended. */
export interface CrashOutcome {
  /** The answer; undefined if the operation runs again. */
  error?: CellError
  /** Counts against the cell: see CellBackoff. */
  isStrike: boolean
}

/** An operation that may have crashed this many workers is not tried again. */
const CRASHES_MAX = 3
const RETRY_MS = 1_000

const FOR_STATEMENTS: ReadonlySet<KillReason | undefined> = new Set([
  'timeout',
  'held-up',
  'abandoned',
  'log',
])

/** Whether a worker was killed because of one statement, so that the rest of its batch is not to blame. */
export function isForStatement(cause: KillReason | undefined): boolean {
  return FOR_STATEMENTS.has(cause)
}

/**
 * For a statement that was running when its worker ended.
 *
 * @param cause undefined if it is unknown
 * @param isShared whether many cells share the worker
 * @param bounds bytes that a worker may use, and that a statement may add to its cell's log
 */
export function crashOutcome(
  operation: QueuedOperation,
  cause: KillReason | undefined,
  isShared: boolean,
  { memoryMax, logBytesMax }: { memoryMax: number; logBytesMax: number },
): CrashOutcome {
  switch (cause) {
    case 'timeout':
      return { error: timeout(operation.statementMs), isStrike: true }
    case 'log':
      return { error: transactionTooLarge(logBytesMax), isStrike: true }
    case 'abandoned':
      // The caller has gone: no answer is needed.
      return { isStrike: true }
    case 'held-up':
      return { isStrike: false }
    case 'memory':
      // In a shared process the owner of the memory is unknown. If this statement fails again when isolated, it was its own.
      return isShared ? { isStrike: false } : { error: memoryExceeded(memoryMax), isStrike: true }
    default:
      return { isStrike: countCrash(operation) }
  }
}

/**
 * For an operation that may have crashed its worker.
 *
 * @returns true if it is not tried again; it has its error then
 */
export function countCrash(operation: QueuedOperation): boolean {
  operation.crashes++
  if (operation.crashes < CRASHES_MAX) return false
  operation.settle({ ok: false, error: givenUp() })
  return true
}

/** It invites a retry: nothing of the operation was committed. Whoever kills workers from outside may have stopped by then. */
function givenUp(): CellError {
  return new CellError(
    'busy',
    `The worker process ended ${CRASHES_MAX} times while it had this request, and nothing of it was changed. Try again later.`,
    { retryAfterMs: RETRY_MS },
  )
}

function timeout(limit: number): CellError {
  return new CellError(
    'statement_timeout',
    `The statement took longer than ${limit} ms (http.statementMsMax, timeout_ms) and was rolled back. Make it cheaper, or split it.`,
    { limit },
  )
}

function transactionTooLarge(limit: number): CellError {
  return new CellError(
    'transaction_too_large',
    `The statement wrote more than ${limit} bytes into the cell's log (limits.walBytesMax) and was rolled back. Change fewer rows at a time.`,
    { limit },
  )
}

function memoryExceeded(limit: number): CellError {
  return new CellError(
    'result_memory_exceeded',
    `The statement needed more than ${limit} bytes of memory (workers.memoryMax) and was rolled back. Make it cheaper, or split it.`,
    { limit },
  )
}
