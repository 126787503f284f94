import { unlessAborted } from '../base/async/unless-aborted.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { CellError } from '../errors.ts'

/** Milliseconds that a deletion waits for the object store. */
const WAIT_MS = 5_000

export interface FinalBackupParts {
  /** Resolves when the account may ship. */
  turn(signal: AbortSignal): Promise<void>
  /** Ships what the cell has committed. @returns false for one without a history, or whose files can't be read. Fails where nothing is shipped */
  flush(signal: AbortSignal): Promise<boolean>
  /** Stores a version of the cell. */
  backUp(signal: AbortSignal): Promise<unknown>
  clock: Clock
  log: Log
}

/**
 * Stores what a cell has committed, right before a deletion removes its files: its newest version then is its last state. A large
 * base may take longer than a deletion waits: then the log objects have the rest, for as long as they stay. They also have the last
 * moments before the version; an account that deletes many cells in a row does not wait for its turn to ship these. Nothing of
 * this keeps the cell from being deleted.
 */
export async function storeBeforeDeletion(
  cellId: string,
  { turn, flush, backUp, clock, log }: FinalBackupParts,
): Promise<void> {
  const over = new AbortController()
  const timer = clock.setTimer(() => over.abort(tooLate()), WAIT_MS, { keepsAlive: true })
  const { signal } = over
  const needless = new AbortController()
  const ship = async () => {
    await turn(AbortSignal.any([signal, needless.signal]))
    return await flush(signal)
  }
  const store = () => backUp(signal).then(() => needless.abort(tooLate()))
  const [shipped, stored] = await Promise.allSettled([
    unlessAborted(ship(), signal),
    unlessAborted(store(), signal),
  ])
  timer.cancel()
  if (stored.status !== 'rejected') return
  const err = stored.reason
  if (shipped.status === 'fulfilled' && shipped.value)
    log.info({ cellId, err }, 'a cell is being deleted: its last state is shipped, and in no version')
  else log.warn({ cellId, err }, 'a cell is being deleted, and its newest changes could not be stored')
}

function tooLate(): CellError {
  return new CellError('busy', `A deletion waits at most ${WAIT_MS} ms for the object store.`, {
    limit: WAIT_MS,
  })
}
