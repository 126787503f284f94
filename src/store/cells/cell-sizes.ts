import fs from 'node:fs/promises'
import { mapLimit } from '../../base/async/map-limit.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'

export interface CellSizesParts {
  paths: StorePaths
  unreadable: UnreadableCells
}

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/** Sizes of cells, database and WAL, in bytes; 0 without local data, or if it cannot be read. Does not hold up the event loop. */
export async function cellSizes(
  { paths, unreadable }: CellSizesParts,
  ids: readonly string[],
): Promise<number[]> {
  const sizeOf = (id: string) => unreadable.lookAside(id, () => sizeOfCell(paths, id))
  return await mapLimit(ids, AT_ONCE, async (id) => (await sizeOf(id)) ?? 0)
}

async function sizeOfCell(paths: StorePaths, id: string): Promise<number> {
  const { database, wal } = paths.cell(id)
  return (await sizeOfFile(database)) + (await sizeOfFile(wal))
}

async function sizeOfFile(file: string): Promise<number> {
  try {
    return (await fs.stat(file)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
