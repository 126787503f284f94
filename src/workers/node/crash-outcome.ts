import { CellError } from '../../errors.ts'
import type { QueuedOperation } from './operation-queue.ts'
import type { EndReason } from './worker-slot.ts'

/** What becomes of an operation whose host was ended. */
export interface Sentence {
  /** What is answered; undefined if it is run again. */
  error?: unknown
  /** Its cell is slowed down if that goes on. */
  isOffence: boolean
}

/** An operation that may have ended its host so often is not tried any more. */
const CRASHES_MAX = 3

const FOR_STATEMENTS: ReadonlySet<EndReason | undefined> = new Set(['timeout', 'held-up', 'abandoned'])

/** Whether a host was ended for the sake of one statement, and of nothing else in its batch. */
export function isForStatement(cause: EndReason | undefined): boolean {
  return FOR_STATEMENTS.has(cause)
}

/**
 * On a statement that was running when its host was ended.
 *
 * @param cause undefined if nobody knows
 * @param isHome whether the host was one that many cells share
 * @param memoryMax bytes that a host may use
 */
export function sentenceOn(
  operation: QueuedOperation,
  cause: EndReason | undefined,
  isHome: boolean,
  memoryMax: number,
): Sentence {
  switch (cause) {
    case 'timeout':
      return { error: timeout(operation.statementMs), isOffence: true }
    case 'abandoned':
      // Answered already: nobody waits for it.
      return { isOffence: true }
    case 'held-up':
      return { isOffence: false }
    case 'memory':
      // Where many cells share a process nobody knows whose the memory was: that shows when this one is alone.
      return isHome ? { isOffence: false } : { error: memoryExceeded(memoryMax), isOffence: true }
    default:
      return { isOffence: suspect(operation) }
  }
}

/**
 * On an operation that may have ended its host.
 *
 * @returns true if it was given up
 */
export function suspect(operation: QueuedOperation): boolean {
  operation.crashes++
  if (operation.crashes < CRASHES_MAX) return false
  operation.settle({ ok: false, error: new Error('The operation has ended its host again and again.') })
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
