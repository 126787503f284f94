import fs from 'node:fs'
import path from 'node:path'
import { exists, fsyncDirectory } from '../../base/files/durable-files.ts'
import { type CellPaths, isCellId, NOT_REDONE, type StorePaths } from '../../base/files/store-paths.ts'
import { isUnreadable } from '../../base/files/unreadable.ts'
import { redo, removeLogs } from '../../commit-log/redo.ts'
import { endUntilStart, quarantineDamaged, quarantineUntilStart } from '../../engine/quarantine.ts'
import { framesOf } from '../../engine/wal/wal-file.ts'
import type { StoreSettings } from '../settings/settings.ts'

/**
 * Brings the commits in the logs that earlier processes left back into the cells' WALs, before any cell is opened. A cell of
 * which acknowledged commits may be missing is quarantined: its next use checks whether its WAL has all of them. An unreadable
 * cell stays closed until the next start, which reads the same logs again; if these are gone by then, nothing proves its WAL
 * whole any more. All others start.
 */
export async function redoCommits(paths: StorePaths, { clock, log }: StoreSettings): Promise<void> {
  const directory = paths.commitLogs
  const { redone, damaged, unreadable, isNameLost } = await redo({
    directory,
    wal: (id) => paths.cell(id).wal,
  })
  for (const cellId of redone) endUntilStart(paths.cell(cellId))
  const quarantine = (cellId: string, frames: number) => {
    try {
      quarantineDamaged(paths.cell(cellId), frames, clock.now())
    } catch (error) {
      if (!isUnreadable(error)) throw error
      unreadable.set(cellId, error)
    }
  }
  for (const [cellId, bytes] of damaged) quarantine(cellId, framesOf(bytes))
  if (isNameLost)
    log.error({ directory }, 'the commit log is damaged: no cell with changes in its WAL can be proven whole')
  const leftClosed = cellsLeftClosed(directory)
  for (const cellId of isNameLost ? cellsInFolder(paths) : leftClosed)
    if (!unreadable.has(cellId) && mayHaveWal(paths.cell(cellId))) quarantine(cellId, Number.MAX_SAFE_INTEGER)
  for (const [cellId, err] of unreadable) {
    quarantineUntilStart(paths.cell(cellId), clock.now())
    log.error(
      { cellId, err },
      'the files of a cell cannot be read or written: it stays closed, and the next start tries again',
    )
  }
  const readAgain = leftClosed.filter((cellId) => !unreadable.has(cellId))
  for (const cellId of readAgain) endUntilStart(paths.cell(cellId))
  // A cell that was left closed and that no log names any more would count as damaged.
  if (readAgain.length > 0) fsyncDirectory(directory)
  // With lost names they can prove nothing any more, and would close the same cells at each start.
  if (unreadable.size === 0 || isNameLost) removeLogs(directory)
}

/** Cells that an earlier start could not read, and that no log names which this one has redone. */
function cellsLeftClosed(directory: string): string[] {
  const names = exists(directory) ? fs.readdirSync(directory) : []
  const files = names.filter((name) => name.endsWith(NOT_REDONE))
  return files.map((name) => name.slice(0, -NOT_REDONE.length)).filter(isCellId)
}

/** What the layout of `cells/` does not name is not looked at: a file system has folders of its own there, `lost+found`. */
function cellsInFolder(paths: StorePaths): string[] {
  const names = exists(paths.cells) ? fs.readdirSync(paths.cells) : []
  const folders = names.filter((name) => /^[0-9a-f]{2}$/.test(name))
  return folders.flatMap((folder) => fs.readdirSync(path.join(paths.cells, folder))).filter(isCellId)
}

/** If nobody can say, it may. */
function mayHaveWal({ wal }: CellPaths): boolean {
  try {
    return (fs.statSync(wal, { throwIfNoEntry: false })?.size ?? 0) > 0
  } catch (error) {
    if (!isUnreadable(error)) throw error
    return true
  }
}
