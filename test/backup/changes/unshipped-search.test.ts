import { describe, expect, test } from 'vitest'
import { UnshippedSearch } from '../../../src/backup/changes/unshipped-search.ts'
import { silentLog } from '../../../src/base/log.ts'
import type { CellPaths } from '../../../src/base/store-paths.ts'

/** A search for cells that others have found. */
function searchWith(look: (cellId: string) => Promise<void>): UnshippedSearch {
  return new UnshippedSearch({
    progress: { withHistory: () => [] } as never,
    paths: () => ({}) as CellPaths,
    exists: () => true,
    look,
    log: silentLog,
  })
}

describe('The search for unshipped cells', () => {
  test('is over once all that were found were looked at', async () => {
    const looked: string[] = []
    const search = searchWith(async (cellId) => void looked.push(cellId))
    for (const cellId of ['a', 'b', 'c', 'd', 'e', 'f']) search.found(cellId)
    expect(search.isOver).toBe(false)
    await search.search()
    await search.stop()
    expect(looked.sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(search.isOver).toBe(true)
  })

  test('waits at a stop for the looks that run, and does not claim to be over if it left any', async () => {
    const gate = Promise.withResolvers<void>()
    const looked: string[] = []
    const search = searchWith(async (cellId) => {
      await gate.promise
      looked.push(cellId)
    })
    for (const cellId of ['a', 'b', 'c', 'd', 'e', 'f']) search.found(cellId)
    const stopped = search.stop()
    gate.resolve()
    await stopped
    expect(looked).toHaveLength(4)
    expect(search.isOver).toBe(false)
  })
})
