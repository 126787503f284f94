import { CellError } from '../../errors.ts'
import type { QueuedOperation } from './operation-queue.ts'
import type { KillReason } from './worker-slot.ts'

/** What becomes of an operation whose worker was ended. */
export interface CrashOutcome {
  /** What is answered; undefined if it is run again. */
  error?: unknown
  /** Its cell is slowed down if that goes on. */
  isStrike: boolean
}

/** An operation that may have ended its worker so often is not tried any more. */
const CRASHES_MAX = 3

const FOR_STATEMENTS: ReadonlySet<KillReason | undefined> = new Set(['timeout', 'held-up', 'abandoned'])

/** Whether a worker was ended for the sake of one statement, and of nothing else in its batch. */
export function isForStatement(cause: KillReason | undefined): boolean {
  return FOR_STATEMENTS.has(cause)
}

/**
 * On a statement that was running when its worker was ended.
 *
 * @param cause undefined if nobody knows
 * @param isHome whether the worker was one that many cells share
 * @param memoryMax bytes that a worker may use
 */
export function crashOutcome(
  operation: QueuedOperation,
  cause: KillReason | undefined,
  isHome: boolean,
  memoryMax: number,
): CrashOutcome {
  switch (cause) {
    case 'timeout':
      return { error: timeout(operation.statementMs), isStrike: true }
    case 'abandoned':
      // Answered already: nobody waits for it.
      return { isStrike: true }
    case 'held-up':
      return { isStrike: false }
    case 'memory':
      // Where many cells share a process nobody knows whose the memory was: that shows when this one is alone.
      return isHome ? { isStrike: false } : { error: memoryExceeded(memoryMax), isStrike: true }
    default:
      return { isStrike: countCrash(operation) }
  }
}

/**
 * On an operation that may have ended its worker.
 *
 * @returns true if it was given up
 */
export function countCrash(operation: QueuedOperation): boolean {
  operation.crashes++
  if (operation.crashes < CRASHES_MAX) return false
  operation.settle({ ok: false, error: new Error('The operation has ended its worker again and again.') })
  return true
}

function timeout(limit: number): CellError {
  return new CellError(
    'statement_timeout',
    `The statement took longer than ${limit} ms; nothing of it remains. Make it cheaper, or do it in parts.`,
    { limit },
  )
}

function memoryExceeded(limit: number): CellError {
  return new CellError(
    'result_memory_exceeded',
    `The statement needed more memory than ${limit} bytes; nothing of it remains. Make it cheaper, or do it in parts.`,
    { limit },
  )
}
