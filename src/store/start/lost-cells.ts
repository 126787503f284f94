import fs from 'node:fs/promises'
import { mapLimit } from '../../base/async/map-limit.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'
import type { CellsFolder } from './cells-folder.ts'

export interface LostCellsParts {
  registry: CellRegistry
  paths: StorePaths
  cellsFolder: CellsFolder
  unreadable: UnreadableCells
}

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/**
 * The cells of the catalog whose database is not on this machine, the one first that was made last. One `stat` for each cell,
 * outside of the event loop. An unreadable cell is not lost.
 *
 * @throws `cells_missing` if nobody can say that they are lost
 */
export async function lostCells(
  { registry, paths, cellsFolder, unreadable }: LostCellsParts,
  signal: AbortSignal,
): Promise<string[]> {
  const lost: string[] = []
  const look = (id: string) => unreadable.lookAside(id, () => isHere(paths.cell(id).database))
  let cursor: string | undefined
  do {
    const page = registry.list({ cursor, limit: registry.pageMax })
    const here = await mapLimit(page.cells, AT_ONCE, async ({ id }) =>
      signal.aborted ? undefined : await look(id),
    )
    for (const [i, { id }] of page.cells.entries()) if (here[i] === false) lost.push(id)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && !signal.aborted)
  if (lost.length > 0) cellsFolder.assertHere()
  return lost.reverse()
}

/** @throws if that cannot be found out: what cannot be read is not lost */
async function isHere(file: string): Promise<boolean> {
  try {
    await fs.stat(file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
