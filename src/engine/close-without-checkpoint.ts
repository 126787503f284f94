import { type Connection, closeLeavingLog } from './sqlite.ts'
import { cutWal } from './wal-file.ts'

/** Connections that can't be closed without a write: kept, since the driver would close what nobody holds. */
const parked = new Set<Connection>()

/**
 * Closes the connection of a cell that the disk has failed under. Nothing is written, but for what was refused: that goes
 * from its log. Never throws.
 *
 * @param framesOf asks the connection how many frames of the log hold commits
 * @returns that number, if it could be told
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
    // Not known then, and nothing is cut off.
  }
  if (!closeLeavingLog(connection)) parked.add(connection)
  try {
    if (frames !== undefined) cutWal(`${path}-wal`, frames)
  } catch {
    // The disk fails; whether what was refused is there again is not known.
  }
  return frames
}
