import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { CellRegistry } from '../catalog/cell-registry.ts'

/** Cells in one turn of the event loop. */
const BATCH = 64

/** Calls `run` for every cell that is there, a few in each turn of the event loop, until `stopped` says so. */
export async function forEachCell(
  registry: CellRegistry,
  run: (id: string) => void,
  stopped: () => boolean,
): Promise<void> {
  let cursor: string | undefined
  do {
    const page = registry.list({ cursor, limit: Math.min(BATCH, registry.pageMax) })
    for (const { id } of page.cells) {
      if (stopped()) return
      run(id)
    }
    cursor = page.nextCursor ?? undefined
    await turnOfTheLoop()
  } while (cursor !== undefined && !stopped())
}
