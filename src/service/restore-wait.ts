import type { Clock } from '../base/clock.ts'
import { CellError } from '../errors.ts'

/** When to try again after a restore took longer than a request may wait. */
const RESTORING_RETRY_MS = 2_000

/**
 * Waits for the restore of a cell's data. The restore goes on when the wait is over: the next request finds it done, or
 * waits for the same one.
 *
 * @throws `cell_restoring` if it takes longer; what `restored` rejects with
 */
export function waitForRestore(restored: Promise<void>, clock: Clock, waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(() => reject(restoring()), waitMs)
    restored.then(resolve, reject).finally(() => timer.cancel())
  })
}

function restoring(): CellError {
  return new CellError(
    'cell_restoring',
    "The cell's data is being restored from its newest backup. Try again.",
    { retryAfterMs: RESTORING_RETRY_MS },
  )
}
