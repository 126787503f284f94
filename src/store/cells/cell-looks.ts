import fs from 'node:fs/promises'
import { mapLimit } from '../../base/async/map-limit.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'

export interface CellLooksParts {
  paths: StorePaths
  unreadable: UnreadableCells
}

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/** What a cell's files say of it. */
export interface CellLook {
  /** Bytes of database and WAL; 0 without local data, or if it cannot be read. */
  sizeBytes: number
  /** It is kept closed, or cannot be read. */
  isQuarantined: boolean
}

/** Looks at the files of cells, and does not hold up the event loop. */
export async function lookAtCells(
  { paths, unreadable }: CellLooksParts,
  ids: readonly string[],
): Promise<CellLook[]> {
  const look = (id: string) => unreadable.lookAside(id, () => lookAtCell(paths, id))
  return await mapLimit(ids, AT_ONCE, async (id) => (await look(id)) ?? { sizeBytes: 0, isQuarantined: true })
}

async function lookAtCell(paths: StorePaths, id: string): Promise<CellLook> {
  const { database, wal, quarantine } = paths.cell(id)
  const sizeBytes = (await sizeOfFile(database)) + (await sizeOfFile(wal))
  return { sizeBytes, isQuarantined: (await sizeOfFile(quarantine)) > 0 }
}

async function sizeOfFile(file: string): Promise<number> {
  try {
    return (await fs.stat(file)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
