import fs from 'node:fs/promises'
import type { StorePaths } from '../base/store-paths.ts'

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/** Sizes of cells, database and WAL, in bytes; 0 without local data. Does not hold up the event loop. */
export async function cellSizes(paths: StorePaths, ids: readonly string[]): Promise<number[]> {
  const sizes: number[] = []
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = ids.slice(i, i + AT_ONCE)
    sizes.push(...(await Promise.all(some.map((id) => sizeOfCell(paths, id)))))
  }
  return sizes
}

async function sizeOfCell(paths: StorePaths, id: string): Promise<number> {
  const { database, wal } = paths.cell(id)
  return (await sizeOf(database)) + (await sizeOf(wal))
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await fs.stat(file)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
