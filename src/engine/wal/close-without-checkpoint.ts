import { type Connection, closeLeavingLog } from '../sqlite.ts'
import { cutWal } from './wal-file.ts'

/** Connections that can't be closed without a write: referenced here, since the driver closes a collected one. */
const parked = new Set<Connection>()

/**
 * Closes the connection of a cell whose disk has failed. Nothing is written; only refused commits are cut off the log.
 * Never throws.
 *
 * @param framesOf asks the connection how many frames of the log hold commits
 * @returns that number, if it is known
 */
export function closeWithoutCheckpoint(
  connection: Connection,
  path: string,
  framesOf: () => number,
): number | undefined {
  let frames: number | undefined
  try {
    frames = framesOf()
  } catch {
    // Unknown: nothing is cut off.
  }
  if (!closeLeavingLog(connection)) parked.add(connection)
  try {
    if (frames !== undefined) cutWal(`${path}-wal`, frames)
  } catch {
    // The disk fails: nobody knows whether the refused commits are in the log.
  }
  return frames
}
