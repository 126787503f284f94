import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { BranchCellOptions } from '../../src/store/cells/cell-branches.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { GatedStore } from '../support/backup/object-store-decorators.ts'
import { leftOvers } from '../support/database-files.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

const NO_SCHEDULE = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null }

/** A store with a cell that has one backup, and gates before its objects. */
async function openSource(options: StoreOptions = {}) {
  const objectStore = new GatedStore(new FileObjectStore({ root: path.join(tempDirectory(), 'objects') }))
  const { clock: _, ...rest } = options
  const opened = await openTestStore({ objectStore, backups: NO_SCHEDULE, ...rest })
  const { store } = opened
  const accountId = store.accounts.create().id
  const source = store.createCell({ accountId, name: 'source' })
  source.kv.put('k', 'v')
  const { version } = await store.backups.snapshot(source.id)
  const cells = () => store.cells().cells.length
  return { ...opened, directory: opened.directory, store, objectStore, accountId, source, version, cells }
}

/** Holds the first read of a backup, and returns what is done meanwhile. */
function holdReads(objectStore: GatedStore) {
  objectStore.gates = (call) => call === 'get' || call === 'head'
  return objectStore.arrival()
}

describe('a new cell with a state of another cell', () => {
  test('is a cell of its account, with the durability and the entries of the other, and their times to live', async () => {
    const { store, source, accountId, clock } = await openSource()
    source.kv.put('goes', 'v', { ttlSeconds: 60 })
    await store.backups.snapshot(source.id)
    const made = await store.createCell({ from: { cellId: source.id }, name: 'copy' })
    expect(store.cell('copy', { accountId }).id).toBe(made.id)
    expect(store.findCell(made.id)).toMatchObject({ accountId, createdAt: clock.now(), durability: null })
    expect(made.kv.ttl(['k', 'goes'])).toEqual([-1, 60])
    clock.advance(60_000)
    expect(made.kv.get('goes')).toBeUndefined()
    expect(made.kv.get('k')).toBe('v')
  })

  test('needs names that are known', async () => {
    const { store, source } = await openSource()
    const from = { cellId: source.id, verison: 'x' }
    expect((await rejectedBy(store.createCell({ from } as BranchCellOptions))).message).toBe(
      'from.verison is not known: did you mean version?',
    )
    const typed = { from: { cellId: source.id }, nmae: 'x' }
    expect((await rejectedBy(store.createCell(typed as BranchCellOptions))).message).toBe(
      'nmae is not known: did you mean name?',
    )
    const without = { from: {} } as unknown as { from: { cellId: string } }
    expect(await rejectedBy(store.createCell(without))).toMatchObject({ details: { field: 'from.cellId' } })
  })

  test('has no source in another account', async () => {
    const { store, source, directory, cells } = await openSource()
    const other = store.accounts.create().id
    const refused = await rejectedBy(store.createCell({ accountId: other, from: { cellId: source.id } }))
    expect(refused).toMatchObject({ code: 'cell_not_found', message: 'There is no such cell.' })
    expect([cells(), leftOvers({ directory }, 1)]).toEqual([1, []])
  })

  test('is not made if its source is purged meanwhile', async () => {
    const { store, source, objectStore, directory } = await openSource()
    store.deleteCell(source.id)
    const arrival = holdReads(objectStore)
    const making = rejectedBy(store.createCell({ from: { cellId: source.id } }))
    await arrival
    objectStore.gates = (call) => call === 'head'
    fs.rmSync(path.join((objectStore.inner as FileObjectStore).url.replace('file://', ''), 'snapshots'), {
      recursive: true,
    })
    objectStore.open()
    expect((await making).code).toBe('backup_not_found')
    expect(leftOvers({ directory }, 0)).toEqual([])
  })

  test('is made if its source is deleted meanwhile', async () => {
    const { store, source, objectStore } = await openSource()
    const arrival = holdReads(objectStore)
    const making = store.createCell({ from: { cellId: source.id } })
    await arrival
    store.deleteCell(source.id)
    objectStore.open()
    expect((await making).kv.get('k')).toBe('v')
  })

  test('is not seen before it is whole, and not made if its name is taken meanwhile', async () => {
    const { store, source, accountId, objectStore, directory, cells } = await openSource()
    const arrival = holdReads(objectStore)
    const making = rejectedBy(store.createCell({ from: { cellId: source.id }, name: 'wanted' }))
    await arrival
    expect(cells()).toBe(1)
    store.createCell({ accountId, name: 'wanted' })
    objectStore.open()
    expect((await making).code).toBe('name_taken')
    expect([cells(), leftOvers({ directory }, 2)]).toEqual([2, []])
  })

  test('is not made if the quota of cells is reached meanwhile', async () => {
    const { store, source, accountId, objectStore, directory, cells } = await openSource({
      quotas: { cellsMax: 2 },
    })
    const arrival = holdReads(objectStore)
    const making = rejectedBy(store.createCell({ from: { cellId: source.id } }))
    await arrival
    store.createCell({ accountId })
    objectStore.open()
    expect((await making).code).toBe('quota_exceeded')
    expect([cells(), leftOvers({ directory }, 2)]).toEqual([2, []])
  })

  test('is made once by a repeated call, which waits for the first', async () => {
    const { store, source, accountId, objectStore, cells } = await openSource()
    const idempotency = { method: 'POST', path: '/v1/databases', key: 'once', fingerprint: 'same' }
    const make = () => store.createCell({ accountId, from: { cellId: source.id }, idempotency })
    const arrival = holdReads(objectStore)
    const first = make()
    await arrival
    expect(await rejectedBy(make())).toMatchObject({
      code: 'idempotency_in_progress',
      details: { retryAfterMs: expect.any(Number) },
    })
    objectStore.open()
    const { id } = await first
    store.deleteCell(source.id)
    await store.purgeCell(source.id)
    expect(await make()).toMatchObject({ id, replayed: true })
    expect(cells()).toBe(1)
  })

  test('comes from a cell that the catalog has forgotten, for its account alone', async () => {
    const { store, source, accountId } = await openSource({ quotas: { cellsMax: 1 } })
    store.deleteCell(source.id)
    store.deleteCell(store.createCell({ accountId }).id)
    expect(store.findCell(source.id)).toBeUndefined()
    const other = store.accounts.create().id
    const refused = await rejectedBy(store.createCell({ accountId: other, from: { cellId: source.id } }))
    expect(refused.code).toBe('cell_not_found')
    const made = await store.createCell({ from: { cellId: source.id } })
    expect(store.findCell(made.id)).toMatchObject({ accountId })
    expect(made.kv.get('k')).toBe('v')
  })
})

describe('after a crash', () => {
  /** The directory as a crash at this moment leaves it, with the same objects. */
  function crashed(directory: string): string {
    const copy = path.join(tempDirectory(), 'data')
    fs.cpSync(directory, copy, {
      recursive: true,
      filter: (file) => !/(lock|workers)\.db|owner\.json/.test(file),
    })
    return copy
  }

  async function opened(directory: string, objects: GatedStore) {
    const store = await CellStore.open(directory, {
      objectStore: objects.inner,
      takeOver: true,
      backups: NO_SCHEDULE,
    })
    onTestFinished(() => store.close())
    return store
  }

  test.each([
    ['during its build', 0],
    ['between its build and its record', 1],
  ])('%s there is neither a cell nor anything of it', async (_when, at) => {
    const { source, directory, objectStore, store } = await openSource()
    let copy = ''
    let calls = 0
    await store.createCell({
      from: { cellId: source.id },
      permit: () => {
        if (calls++ === at) copy = crashed(directory)
      },
    })
    expect(leftOvers({ directory: copy }, 1)).not.toEqual([])
    const next = await opened(copy, objectStore)
    expect(next.cells().cells.map(({ id }) => id)).toEqual([source.id])
    expect(leftOvers({ directory: copy }, 1)).toEqual([])
  })

  test('after its record, the cell is there', async () => {
    const { source, directory, objectStore, store } = await openSource()
    const { id } = await store.createCell({ from: { cellId: source.id } })
    const spool = path.join(directory, 'spool')
    fs.mkdirSync(spool, { recursive: true })
    fs.writeFileSync(path.join(spool, `new-cell-${id}`), '')
    const copy = crashed(directory)
    const next = await opened(copy, objectStore)
    expect(next.openCell(id).kv.get('k')).toBe('v')
    expect(leftOvers({ directory: copy }, 2)).toEqual([])
  })
})

describe('deleted cells', () => {
  test('are listed on request, page by page, with their names and the time of their deletion', async () => {
    const { store, source, accountId, clock } = await openSource()
    clock.advance(1_000)
    const gone = [source, store.createCell({ accountId, name: 'gone' }), store.createCell()]
    for (const { id } of gone) store.deleteCell(id)
    const kept = store.createCell({ accountId, name: 'gone' })
    const ids = (options: Parameters<CellStore['cells']>[0]) => store.cells(options).cells.map(({ id }) => id)
    expect(ids({ deleted: true })).toEqual(gone.map(({ id }) => id))
    expect(ids({ deleted: true, accountId })).toEqual([source.id, gone[1]?.id])
    expect(ids({ deleted: true, accountId, name: 'gone' })).toEqual([gone[1]?.id])
    expect(ids({ deleted: true, name: 'source' })).toEqual([source.id])
    expect(ids({ deleted: false })).toEqual([kept.id])
    expect(ids({})).toEqual([kept.id])
    const first = store.cells({ deleted: true, accountId, limit: 1 })
    expect(first.cells).toMatchObject([
      { id: source.id, name: 'source', deletedAt: clock.now(), sizeBytes: 0 },
    ])
    const second = store.cells({ deleted: true, accountId, limit: 1, cursor: first.nextCursor ?? '' })
    expect([second.cells.map(({ id }) => id), second.nextCursor]).toEqual([[gone[1]?.id], null])
    await store.backups.restore(source.id)
    expect(ids({ deleted: true, accountId })).toEqual([gone[1]?.id])
  })

  test('are not listed for a wrong flag', async () => {
    const { store } = await openSource()
    const wrong = { deleted: 'yes' } as unknown as { deleted: boolean }
    expect(() => store.cells(wrong)).toThrow('deleted must be true or false, but it is "yes".')
  })
})
