import type { CellPaths } from '../../base/files/store-paths.ts'
import { CellError } from '../../errors.ts'
import { openConnection } from '../sqlite.ts'
import { rewriteWal } from '../wal/wal-file.ts'
import { assertReadable, findDamageOfPages } from './quick-check.ts'

/** A closed cell whose disk has failed. */
export interface ClosedCell {
  paths: CellPaths
  /** Frames of its log that hold commits; undefined if unknown. */
  frames: number | undefined
  /** False once another part uses its files. */
  isCurrent(): boolean
}

/**
 * Makes a cell usable again after the disk has failed, and proves it. Nobody else has its files open.
 *
 * @throws `cell_quarantined` as damaged; SQLite's and the system's errors while the disk still fails
 */
export async function checkClosedCell(cell: ClosedCell): Promise<void> {
  await rewriteWal(cell.paths.wal, cell.isCurrent)
  if (cell.isCurrent()) proveTwice(cell)
}

/** Damage must be found twice, and the file must be readable in between: a disk that still fails can look like damage. */
function proveTwice(cell: ClosedCell): void {
  try {
    proveWhole(cell)
  } catch {
    assertReadable(cell.paths.database)
    proveWhole(cell)
  }
}

/**
 * Checks on a new connection, so that nothing in memory stands in for the disk: SQLite recovers the log as after a crash,
 * must find every commit, and checks the pages. Nothing that the schema makes slow is checked: others wait for this process.
 */
function proveWhole({ paths, frames }: ClosedCell): void {
  const connection = openConnection(paths.database, { readonly: true })
  try {
    connection.prepare('SELECT count(*) FROM sqlite_schema').get()
    const [log] = connection.pragma('main.wal_checkpoint(NOOP)') as { log: number }[]
    if (frames !== undefined && (log?.log ?? 0) < frames) {
      throw damaged(`its log has lost commits (${log?.log} of ${frames} frames remain)`)
    }
    const damage = findDamageOfPages(connection)
    if (damage !== undefined) throw damaged(damage)
  } finally {
    connection.close()
  }
}

function damaged(what: string): CellError {
  return new CellError('cell_quarantined', `The cell's file is damaged: ${what}.`, { reason: 'damaged' })
}
