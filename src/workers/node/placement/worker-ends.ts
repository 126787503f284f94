import { CellError } from '../../../errors.ts'

/**
 * The one table of the ends of workers: whether a worker is ended, and what follows. A SQLite statement can't be interrupted here, so its
 * process is killed. What was committed there is known from the cells' logs (`unresolved-transactions.ts`), and all else that
 * ran or waited there runs again, unless the table answers it.
 */

/** Why a node kills a worker. */
export type KillReason = 'timeout' | 'held-up' | 'abandoned' | 'log' | 'memory' | 'silent'

/** Whose operations wait for what a worker does. */
export type HeldUp = 'neighbours' | 'own' | 'nobody'

/** A look at a worker. */
export interface Look {
  /** Resident, in bytes. */
  memory: number
  /** Milliseconds for which it has said nothing, although it should. */
  silentMs: number
  /** What it does for an operation or a cell, if that is known. */
  work: LookedAtWork | undefined
}

export interface LookedAtWork {
  /** Milliseconds that it has run, and that it may. */
  ranMs: number
  statementMs: number
  /** Bytes that it has added to its cell's log. */
  loggedBytes: number
  /** Nobody waits for it any more. */
  isAbandoned: boolean
  heldUp: HeldUp
  /** Its account is the only one that was active lately. */
  isAlone: boolean
  /** It runs in a home worker, another one is ready, and its account and cell may cost one more. */
  mayMove: boolean
}

export interface EndBounds {
  blockMs: number
  silentMs: number
  /** Bytes of memory that a worker may use. */
  memoryMax: number
  /** Bytes that a statement may add to its cell's log. */
  logBytesMax: number
}

/** Share of `memoryMax` at which a worker is killed. A statement can take the rest before the next look. */
const MEMORY_SHARE = 7 / 8

/** @returns why the worker is to be ended; undefined: it goes on */
export function killReason({ memory, silentMs, work }: Look, bounds: EndBounds): KillReason | undefined {
  if (memory > bounds.memoryMax * MEMORY_SHARE) return 'memory'
  if (silentMs > bounds.silentMs) return 'silent'
  if (work === undefined) return undefined
  if (work.ranMs > work.statementMs) return 'timeout'
  if (work.loggedBytes > bounds.logBytesMax) return 'log'
  if (work.ranMs <= bounds.blockMs) return undefined
  if (work.isAbandoned) return 'abandoned'
  // What holds up its own account alone is ended only where nobody else could lose the worker.
  const isInTheWay = work.heldUp === 'neighbours' || (work.heldUp === 'own' && work.isAlone)
  return isInTheWay && work.mayMove ? 'held-up' : undefined
}

/** The end of a worker that was not told to end. */
export interface WorkerEnd {
  /** `exited`: a crash, or somebody else has killed it. */
  cause: KillReason | 'exited'
  /** What ran; a statement may be any operation. Of a COMMIT the cell's log tells whether it was made. */
  ran: 'statement' | 'commit' | 'task' | undefined
  isSlowWorker: boolean
  /** What ran has ended a worker before, so that it ran alone. */
  ranAlone: boolean
  /** The worker had said whose open cells take most of its memory. */
  hasHeaviest: boolean
}

export interface Consequence {
  /** Who goes to the slow worker: the one whose work ran, or whose open cells took the memory. */
  moves: 'culprit' | 'heaviest' | 'nobody'
  /** For whose budget of workers it counts; a cell's is part of its account's. */
  charges: 'cell' | 'account' | 'nobody'
  /** What ran is answered with this error, unless it was committed; without one it runs again. */
  answer?: 'timeout' | 'log' | 'memory' | undefined
  /** Who runs alone the next time, and is given up after the third worker. */
  suspects: 'culprit' | 'batch' | 'nobody'
}

/** What follows. */
export function consequenceOf({ cause, ran, isSlowWorker, ranAlone, hasHeaviest }: WorkerEnd): Consequence {
  switch (cause) {
    case 'timeout':
    case 'log':
      return { moves: 'culprit', charges: 'cell', answer: cause, suspects: 'nobody' }
    case 'abandoned':
      return { moves: 'culprit', charges: 'cell', suspects: 'nobody' }
    case 'held-up':
      return { moves: 'culprit', charges: 'account', suspects: 'nobody' }
    case 'memory':
      // Where the caches of open cells were at fault, what ran is not.
      if (hasHeaviest) return { moves: 'heaviest', charges: 'account', suspects: 'nobody' }
      // Beside others the owner of the memory is unknown. What fails so again, alone, has taken it.
      if (ran === 'statement' && isSlowWorker && ranAlone)
        return { moves: 'culprit', charges: 'cell', answer: 'memory', suspects: 'nobody' }
      break
    case 'silent':
    case 'exited':
  }
  if (ran === 'statement') return { moves: 'culprit', charges: 'nobody', suspects: 'culprit' }
  // Any of the batch may have caused it.
  return { moves: 'nobody', charges: 'nobody', suspects: 'batch' }
}

/** An operation that may have ended this many workers is not tried again. */
export const CRASHES_MAX = 3
const RETRY_MS = 1_000

/** @param limit that was reached: milliseconds of a timeout, bytes otherwise */
export function answerTo(answer: 'timeout' | 'log' | 'memory', limit: number): CellError {
  switch (answer) {
    case 'timeout':
      return new CellError(
        'statement_timeout',
        `The statement took longer than ${limit} ms (http.statementMsMax, timeout_ms) and was rolled back. Make it cheaper, or split it.`,
        { limit },
      )
    case 'log':
      return new CellError(
        'transaction_too_large',
        `The statement wrote more than ${limit} bytes into the cell's log (limits.walBytesMax) and was rolled back. Change fewer rows at a time.`,
        { limit },
      )
    case 'memory':
      return new CellError(
        'result_memory_exceeded',
        `The statement needed more than ${limit} bytes of memory (workers.memoryMax) and was rolled back. Make it cheaper, or split it.`,
        { limit },
      )
  }
}

const STAYS = 'What its request committed before it stays.'

/** @param error of a statement whose request has committed something before it */
export function behindCommit({ code, message, details }: CellError): CellError {
  return new CellError(code, `${message} ${STAYS}`, details)
}

/** What holds up others runs again elsewhere, unless a part of it has been committed. */
export function heldUpBehindCommit(): CellError {
  return new CellError(
    'transaction_lost',
    `The statement held up others for too long, and was rolled back with the transaction that was open. ${STAYS} Send what takes long by itself.`,
  )
}

/** It invites a retry: nothing of the operation was committed. Whoever kills workers from outside may have stopped by then. */
export function givenUp(): CellError {
  return new CellError(
    'busy',
    `The worker process ended ${CRASHES_MAX} times while it had this request, and nothing of it was changed. Try again later.`,
    { retryAfterMs: RETRY_MS },
  )
}
