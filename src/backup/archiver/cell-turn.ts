import { unlessAborted } from '../../base/async/unless-aborted.ts'
import type { Clock } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'

/** A cell in the slow worker waits behind the statements of others: for longer, a job gives its slot up. */
const CELL_WAIT_MS = 60_000
const RETRY_MS = 5_000

/**
 * Waits for the first call of a job to its cell, which holds a slot of the queue meanwhile. The call is not taken back, so only one
 * that can be repeated may be waited for like this.
 *
 * @throws `busy` after a minute; the signal's reason
 */
export async function cellTurn<T>(call: Promise<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  const overdue = new AbortController()
  const timer = clock.setTimer(() => overdue.abort(tookTooLong()), CELL_WAIT_MS)
  try {
    return await unlessAborted(call, AbortSignal.any([signal, overdue.signal]))
  } finally {
    timer.cancel()
  }
}

function tookTooLong(): CellError {
  return new CellError(
    'busy',
    `The cell was too busy for ${CELL_WAIT_MS} ms to begin a backup or a restore. Try again later.`,
    { retryAfterMs: RETRY_MS },
  )
}
