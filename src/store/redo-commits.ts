import fs from 'node:fs'
import path from 'node:path'
import { exists } from '../base/durable-files.ts'
import { type CellPaths, isCellId, type StorePaths } from '../base/store-paths.ts'
import { redo, removeLogs } from '../commit-log/redo.ts'
import { quarantineDamaged } from '../engine/quarantine.ts'
import { framesOf } from '../engine/wal-file.ts'
import type { StoreSettings } from './settings.ts'

/**
 * Brings the commits in the logs that earlier processes left back into the cells' WALs, before any cell is opened. A cell of
 * which acknowledged commits may be missing is quarantined: its next use checks whether its WAL has all of them.
 */
export async function redoCommits(paths: StorePaths, { clock, log }: StoreSettings): Promise<void> {
  const directory = paths.commitLogs
  const lost = await redo({ directory, wal: (id) => paths.cell(id).wal })
  for (const [cellId, bytes] of lost.damaged)
    quarantineDamaged(paths.cell(cellId), framesOf(bytes), clock.now())
  if (lost.isNameLost) {
    log.error({ directory }, 'the commit log is damaged: no cell with changes in its WAL can be proven whole')
    for (const cell of cellsWithWal(paths)) quarantineDamaged(cell, Number.MAX_SAFE_INTEGER, clock.now())
  }
  removeLogs(directory)
}

function cellsWithWal(paths: StorePaths): CellPaths[] {
  const folders = exists(paths.cells) ? fs.readdirSync(paths.cells) : []
  const ids = folders.flatMap((folder) => fs.readdirSync(path.join(paths.cells, folder)))
  const cells = ids.filter(isCellId).map((id) => paths.cell(id))
  return cells.filter(({ wal }) => (fs.statSync(wal, { throwIfNoEntry: false })?.size ?? 0) > 0)
}
