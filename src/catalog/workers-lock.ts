import { type Clock, delay } from '../base/clock.ts'
import { exists } from '../base/files/durable-files.ts'
import type { StorePaths } from '../base/files/store-paths.ts'
import { processStartTime } from '../base/machine/machine.ts'
import { openConnection } from '../engine/sqlite.ts'
import { CellError } from '../errors.ts'
import { isBusy, type ProcessIdentity, writeLockFile } from './directory-lock.ts'

/**
 * Whether workers of an earlier owner are still there: a worker inside a native statement notices the end of its node only
 * when that is over, and until then could commit (invariant 2). Each worker holds a shared lock on `workers.db`, which the
 * kernel drops when it ends, however it ends; a new owner needs it exclusively, once, before it opens anything.
 */

const WAIT_MS_MAX = 10_000
const LOOK_EVERY_MS = 10

/** Called by the owner before its first worker. */
export function prepareWorkers(paths: StorePaths): void {
  if (!exists(paths.workers)) writeLockFile(paths.workers)
}

/** Called in a worker; holds for as long as the process lives. */
export function joinWorkers(paths: StorePaths): void {
  const connection = openConnection(paths.workers)
  connection.exec('BEGIN')
  connection.prepare('SELECT count(*) FROM sqlite_schema').get()
  held.push(connection)
}

/** The lock goes with the connection, so that must not be collected. */
const held: unknown[] = []

/**
 * Ends the workers that an earlier owner has left, and waits until none is there.
 *
 * @param left those that it had on record
 * @throws `store_locked` if one does not end
 */
export async function endLeftWorkers(
  paths: StorePaths,
  left: readonly ProcessIdentity[],
  clock: Clock,
): Promise<void> {
  // A store that never had workers has none left.
  if (!exists(paths.workers)) return
  for (const identity of left) end(identity)
  const connection = openConnection(paths.workers)
  const deadline = clock.monotonic() + WAIT_MS_MAX
  try {
    for (;;) {
      try {
        connection.exec('BEGIN EXCLUSIVE; ROLLBACK')
        return
      } catch (error) {
        if (!isBusy(error)) throw error
        if (clock.monotonic() > deadline) throw stillThere(paths, left)
      }
      await delay(clock, LOOK_EVERY_MS)
    }
  } finally {
    connection.close()
  }
}

/** Only if it is the process that was put on record: a pid is used again. */
function end({ pid, startTime }: ProcessIdentity): void {
  if (startTime === null || processStartTime(pid) !== startTime) return
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // Gone already; or not ours to end, and then the lock shows it.
  }
}

function stillThere({ root }: StorePaths, left: readonly ProcessIdentity[]): CellError {
  const pids = left.map(({ pid }) => pid).join(', ')
  return new CellError(
    'store_locked',
    `Processes that held cells of the store ${root} for an earlier owner have not ended (${pids || 'unknown pids'}). End them, and start again.`,
  )
}
