import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { BackupProgress } from '../../../src/backup/changes/backup-progress.ts'
import type { CollectedLook } from '../../../src/backup/changes/log/cell-log.ts'
import type { ChangedCell } from '../../../src/backup/changes/progress-table.ts'
import { UnshippedSearch } from '../../../src/backup/changes/unshipped-search.ts'
import type { CellPaths } from '../../../src/base/files/store-paths.ts'
import { silentLog } from '../../../src/base/log.ts'

/** Its files cannot be read from here: it has no paths. */
const ROW = { history: {} } as BackupProgress

/** @param rows what `local.db` answers; by default, others have found the cells */
function searchWith(
  look: (cellId: string) => Promise<void>,
  rows: () => BackupProgress[] = () => [],
  changed: () => ChangedCell[] = () => [],
): UnshippedSearch {
  return new UnshippedSearch({
    isShipped: true,
    progress: { withHistory: rows, changedWithoutHistory: changed },
    paths: () => ({}) as CellPaths,
    exists: () => true,
    look,
    log: silentLog,
  })
}

describe('The search for unshipped cells', () => {
  test('that has not begun is not over: no commit counts as stored that nobody has looked for (invariant 1)', async () => {
    const rows = [{ ...ROW, cellId: 'a' }]
    const search = searchWith(
      async () => {},
      () => rows,
    )
    const wanted = ['a']
    // No process has a cell open yet: each says that this is all.
    const all = async () => ({ ...(await nothing()), complete: { a: 1 } })
    expect(await search.collect({ awaited: wanted }, all)).toMatchObject({ isAll: false, complete: {} })
    // A process has ended meanwhile: nobody looks for the cells of others yet.
    await search.search((cellId) => cellId === 'b')
    expect(await search.collect({ awaited: wanted }, all)).toMatchObject({ isAll: false, complete: {} })
    await search.search()
    await settled()
    expect(await search.collect({ awaited: wanted }, all)).toMatchObject({ isAll: true, complete: { a: 1 } })
  })

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

  test('that fails is not over, and is repeated with the next collection: until then nothing is complete', async () => {
    const looked: string[] = []
    let fails = true
    const search = searchWith(
      async (cellId) => void looked.push(cellId),
      () => {
        if (fails) throw new Error('EIO (injected)')
        return [{ ...ROW, cellId: 'a' }]
      },
    )
    await search.search()
    expect(search.isOver).toBe(false)
    expect(await search.collect({}, nothing)).toMatchObject({ isAll: false })
    expect(looked).toEqual([])
    fails = false
    await settled()
    expect(await search.collect({}, nothing)).toMatchObject({ isAll: false })
    await settled()
    expect(looked).toEqual(['a'])
    expect(await search.collect({}, nothing)).toMatchObject({ isAll: true, unreadable: [] })
  })

  test('names a cell that could not be looked at, as long as it cannot; it holds up no others', async () => {
    const looked: string[] = []
    let fails = true
    const search = searchWith(
      async (cellId) => {
        if (fails && cellId === 'b') throw new Error('EIO (injected)')
        looked.push(cellId)
      },
      () => ['a', 'b', 'c'].map((cellId) => ({ ...ROW, cellId })),
    )
    await search.search()
    await settled()
    for (let i = 0; i < 3; i++) {
      expect(await search.collect({}, nothing)).toMatchObject({ isAll: true, unreadable: ['b'] })
      await settled()
    }
    fails = false
    await search.collect({}, nothing)
    await settled()
    expect(await search.collect({}, nothing)).toMatchObject({ isAll: true, unreadable: [] })
    expect(looked.sort()).toEqual(['a', 'b', 'c'])
    await search.stop()
  })

  test('ends during a collection: that may lack the cell, so nothing is complete', async () => {
    let fails = true
    const search = searchWith(
      async () => {
        if (fails) throw new Error('EIO (injected)')
      },
      () => [{ ...ROW, cellId: 'a' }],
    )
    await search.search()
    await settled()
    fails = false
    // The process that then has the cell has answered before it looks.
    const collected = await search.collect({}, async () => {
      const answer = await nothing()
      await settled()
      return answer
    })
    expect(collected).toMatchObject({ unreadable: ['a'] })
    const found = search.collect({}, async () => {
      const answer = await nothing()
      search.found('b')
      await settled()
      return answer
    })
    expect(await found).toMatchObject({ isAll: false })
    expect(await search.collect({}, nothing)).toMatchObject({ isAll: true, unreadable: [] })
  })

  test('names the cells that changed without a history, and looks at none of them', async () => {
    const looked: string[] = []
    const search = searchWith(
      async (cellId) => void looked.push(cellId),
      () => [],
      () => ['a', 'b'].map((cellId) => ({ cellId, changedAt: 0 })),
    )
    await search.search()
    const collected = await search.collect({}, async () => ({
      ...(await nothing()),
      withoutHistory: ['b'],
    }))
    expect(collected).toMatchObject({ isAll: true, withoutHistory: ['b', 'a'] })
    const asked = await search.collect({ historyOf: ['b', 'c'] }, nothing)
    expect(asked).toMatchObject({ withoutHistory: ['b'], withoutHistoryCount: 2 })
    expect(looked).toEqual([])
  })

  test('says up to when all is found: also of cells without a history, of one whose first version is stored meanwhile, and not by a clock that was ahead', async () => {
    let changed: ChangedCell[] = []
    const search = searchWith(
      async () => {},
      () => [],
      () => changed,
    )
    await search.search()
    const ask = async (meanwhile = changed) => {
      const { allAsOf } = await search.collect({}, async () => {
        changed = meanwhile
        return { ...(await nothing()), asOf: 100 }
      })
      return allAsOf
    }
    expect(await ask()).toBe(100)
    changed = [
      { cellId: 'a', changedAt: 95 },
      { cellId: 'b', changedAt: 90 },
    ]
    expect(await ask()).toBe(90)
    expect(await ask([])).toBe(90)
    expect(await ask([{ cellId: 'c', changedAt: 98 }])).toBe(98)
    for (const changedAt of [null, 101]) {
      changed.push({ cellId: 'd', changedAt })
      expect(await ask()).toBe(null)
      changed.pop()
    }
  })

  test('looks at a cell whose files cannot be read from here, and at the others', async () => {
    const looked: string[] = []
    const rows = ['a', 'b'].map((cellId) => ({ ...ROW, cellId, history: {} as BackupProgress['history'] }))
    // It has no paths.
    const search = searchWith(
      async (cellId) => void looked.push(cellId),
      () => rows,
    )
    await search.search()
    await settled()
    expect(looked).toEqual(['a', 'b'])
    expect(search.isOver).toBe(true)
  })
})

async function nothing(): Promise<CollectedLook> {
  return {
    logs: [],
    isAll: true,
    hasMore: false,
    withoutHistory: [],
    withoutHistoryCount: 0,
    unreadable: [],
    asOf: 0,
    allAsOf: null,
    look: 1,
    askedIn: 1,
    complete: {},
  }
}

/** What began has ended: it waits for nothing. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await turnOfTheLoop()
}
