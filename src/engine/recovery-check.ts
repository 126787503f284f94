import type { CellPaths } from '../base/store-paths.ts'
import { CellError } from '../errors.ts'
import { assertReadable, findDamage } from './quick-check.ts'
import { openConnection } from './sqlite.ts'
import { rewriteWal } from './wal-file.ts'

/** What is known of a cell that the disk has failed under, and that is closed. */
export interface ClosedCell {
  paths: CellPaths
  /** Frames of its log that hold commits; undefined if that is not known. */
  frames: number | undefined
  /** False once somebody else has to do with its files. */
  isCurrent(): boolean
}

/**
 * Makes a cell that the disk has failed under fit for use again, and proves that it is. Nobody else has its files open.
 *
 * @throws `cell_quarantined` as damaged; SQLite's and the system's errors as they come, while the disk still fails
 */
export async function checkClosedCell(cell: ClosedCell): Promise<void> {
  await rewriteWal(cell.paths.wal, cell.isCurrent)
  if (cell.isCurrent()) proveTwice(cell)
}

/** Damage has to be found twice, in a file that can be read in between: a disk that still fails can look like it. */
function proveTwice(cell: ClosedCell): void {
  try {
    proveWhole(cell)
  } catch {
    assertReadable(cell.paths.database)
    proveWhole(cell)
  }
}

/**
 * On a fresh connection, so that nothing in memory vouches for what is on the disk: SQLite recovers the log as after a
 * crash, has to find every commit there was, and looks at every page.
 */
function proveWhole({ paths, frames }: ClosedCell): void {
  const connection = openConnection(paths.database, { readonly: true })
  try {
    connection.prepare('SELECT count(*) FROM sqlite_schema').get()
    const [log] = connection.pragma('main.wal_checkpoint(NOOP)') as { log: number }[]
    if (frames !== undefined && (log?.log ?? 0) < frames) {
      throw damaged(`its log has lost commits (${log?.log} of ${frames} frames are left)`)
    }
    const damage = findDamage(connection)
    if (damage !== undefined) throw damaged(damage)
  } finally {
    connection.close()
  }
}

function damaged(what: string): CellError {
  return new CellError('cell_quarantined', `The cell's file is damaged: ${what}.`, { reason: 'damaged' })
}
