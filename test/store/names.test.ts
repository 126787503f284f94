import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { thrownBy } from '../support/thrown.ts'

describe('a cell by its name', () => {
  test('is made at its first use, and is the same one at the next', async () => {
    const { store } = await openTestStore()
    const cell = store.cell('acme')
    cell.kv.put('k', 'v')
    expect(store.cell('acme').id).toBe(cell.id)
    expect(store.cell('acme').kv.get('k')).toBe('v')
    expect(cell.name).toBe('acme')
  })

  test('is of its account, and no account is one too', async () => {
    const { store } = await openTestStore()
    const [a, b] = [store.accounts.create().id, store.accounts.create().id]
    const ids = [store.cell('x'), store.cell('x', { accountId: a }), store.cell('x', { accountId: b })]
    expect(new Set(ids.map(({ id }) => id)).size).toBe(3)
    expect(store.cell('x', { accountId: a }).accountId).toBe(a)
    expect(store.cells({ name: 'x' }).cells.map(({ id }) => id)).toEqual(ids.map(({ id }) => id))
    expect(store.cells({ name: 'x', accountId: b }).cells.map(({ id }) => id)).toEqual([ids[2]?.id])
    expect(store.cells({ name: 'y' }).cells).toEqual([])
  })

  test('is looked up where store.cell() looks, and not made', async () => {
    const { store } = await openTestStore()
    const account = store.accounts.create().id
    const theirs = store.cell('x', { accountId: account })
    expect(store.findCellByName('x')).toBeUndefined()
    const mine = store.cell('x')
    expect(store.findCellByName('x')).toEqual(store.findCell(mine.id))
    expect(store.findCellByName('x', { accountId: account })).toEqual(store.findCell(theirs.id))
    expect(store.findCellByName('x', { accountId: null })?.id).toBe(mine.id)
    store.deleteCell(mine.id)
    expect(store.findCellByName('x')).toBeUndefined()
  })

  test.each(['', 'x'.repeat(256), 'a\u0000b', '\ud800'])(
    'that no cell can have is looked up too: %j',
    async (name) => {
      const { store } = await openTestStore()
      expect(store.findCellByName(name)).toBeUndefined()
    },
  )

  test('is looked up by a text, in an account by its id', async () => {
    const { store } = await openTestStore()
    const given = (value: unknown) => value as never
    expect(thrownBy(() => store.findCellByName(given(undefined)))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'name' },
    })
    expect(thrownBy(() => store.findCellByName('x', { accountId: given(7) }))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'accountId' },
    })
    expect(thrownBy(() => store.findCellByName('x', given({ account: 'x' }))).code).toBe('invalid_request')
  })

  test('is listed without an account, where accountId is null', async () => {
    const { store } = await openTestStore()
    const account = store.accounts.create().id
    store.cell('x', { accountId: account })
    const mine = [store.cell('x'), store.createCell()].map(({ id }) => id)
    expect(store.cells({ name: 'x', accountId: null }).cells.map(({ id }) => id)).toEqual([mine[0]])
    const ids: string[] = []
    for await (const { id } of store.cells({ accountId: null, limit: 1 })) ids.push(id)
    expect(ids).toEqual(mine)
    for (const id of mine) store.deleteCell(id)
    expect(store.cells({ accountId: null }).cells).toEqual([])
    expect(store.cells({ accountId: null, deleted: true }).cells.map(({ id }) => id)).toEqual(mine)
    expect(store.cells({ accountId: null, name: 'x', deleted: true }).cells.map(({ id }) => id)).toEqual([
      mine[0],
    ])
  })

  test('is found after the store was closed', async () => {
    const test = await openTestStore()
    const { id } = test.store.cell('acme')
    expect((await test.reopen()).cell('acme').id).toBe(id)
  })

  test.each(['', 7, null, 'x'.repeat(256), '\ud800'])('is refused for %o', async (name) => {
    const { store } = await openTestStore()
    expect(thrownBy(() => store.cell(name as string))).toMatchObject({ code: 'invalid_request' })
  })

  test('takes only options that it knows, and an account that exists', async () => {
    const { store } = await openTestStore()
    const unknown = { acountId: 'x' } as object
    expect(thrownBy(() => store.cell('a', unknown))).toMatchObject({ code: 'invalid_request' })
    const accountId = '00000000-0000-4000-8000-000000000000'
    expect(thrownBy(() => store.cell('a', { accountId }))).toMatchObject({ details: { field: 'accountId' } })
  })
})

describe('a name', () => {
  test('is taken while a cell of the account has it', async () => {
    const { store } = await openTestStore()
    const accountId = store.accounts.create().id
    const { id } = store.createCell({ name: 'acme', accountId })
    const taken = { code: 'name_taken', details: { field: 'name' }, message: expect.stringContaining(id) }
    expect(thrownBy(() => store.createCell({ name: 'acme', accountId }))).toMatchObject(taken)
    expect(store.cells({ accountId }).cells).toHaveLength(1)
    store.createCell({ name: 'acme' })
    store.createCell({ accountId })
    store.createCell({ accountId })
  })

  test('can be changed and removed, and is free then', async () => {
    const { store } = await openTestStore()
    const cell = store.cell('old')
    store.renameCell(cell.id, 'new')
    expect(cell.name).toBe('new')
    expect(store.cell('new').id).toBe(cell.id)
    expect(store.cell('old').id).not.toBe(cell.id)
    expect(thrownBy(() => store.renameCell(cell.id, 'old'))).toMatchObject({ code: 'name_taken' })
    store.renameCell(cell.id, 'new')
    store.renameCell(cell.id, null)
    expect(cell.name).toBeNull()
    for (const name of [7, undefined, 'x'.repeat(256)])
      expect(thrownBy(() => store.renameCell(cell.id, name as string))).toMatchObject({
        code: 'invalid_request',
      })
  })

  test('is free once its cell is deleted; the cell comes back without it if it is taken by then', async () => {
    const { store, warnings } = await storeWithBackups()
    const cell = store.cell('acme')
    await store.backups.snapshot(cell.id)
    store.deleteCell(cell.id)
    const { id: holder } = store.cell('acme')
    await store.backups.restore(cell.id)
    expect(store.findCell(cell.id)?.name).toBeNull()
    expect(store.cell('acme').id).toBe(holder)
    expect(warnings).toContainEqual([
      { cellId: cell.id, holder },
      'a restored cell has no name now: another cell has taken it meanwhile',
    ])
  })

  test('comes back with its cell if nobody has taken it', async () => {
    const { store } = await storeWithBackups()
    const cell = store.cell('acme')
    await store.backups.snapshot(cell.id)
    store.deleteCell(cell.id)
    await store.backups.restore(cell.id)
    expect(store.cell('acme').id).toBe(cell.id)
  })

  test('outlives the loss of the directory, also one that was given after the last backup', async () => {
    const test = await storeWithBackups()
    const cell = test.store.cell('old')
    cell.kv.put('k', 'v')
    await test.store.backups.snapshot(cell.id)
    test.store.renameCell(cell.id, 'new')
    await test.store.close()
    fs.rmSync(test.directory, { recursive: true })
    const store = await test.reopen()
    const found = store.cell('new')
    expect(found.id).toBe(cell.id)
    await found.ensureLocal()
    expect(found.kv.get('k')).toBe('v')
  })
})

async function storeWithBackups() {
  const warnings: unknown[] = []
  const silent = () => {}
  const log = {
    debug: silent,
    info: silent,
    warn: (...line: unknown[]) => warnings.push(line),
    error: silent,
  }
  const objectStore = pathToFileURL(path.join(tempDirectory(), 'objects')).href
  const backups = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null }
  return Object.assign(await openTestStore({ objectStore, backups, log }), { warnings })
}

test('a directory in which earlier versions gave cells one name opens, and says which cells these are', async () => {
  const test = await openTestStore()
  const [a, b] = [test.store.createCell({ name: 'twice' }).id, test.store.createCell({ name: 'other' }).id]
  await test.store.close()
  const catalog = new Database(`${test.directory}/catalog.db`)
  catalog.exec("DROP INDEX named_cells; UPDATE cells SET name = 'twice'")
  catalog.close()
  const store = await test.reopen()
  const ambiguous = thrownBy(() => store.cell('twice'))
  expect(ambiguous).toMatchObject({ code: 'name_ambiguous', message: expect.stringContaining(`${a}, ${b}`) })
  expect(store.cells({ name: 'twice' }).cells).toHaveLength(2)
  expect(thrownBy(() => store.createCell({ name: 'twice' }))).toMatchObject({ code: 'name_taken' })
  store.renameCell(b, 'once')
  expect(store.cell('twice').id).toBe(a)
})

test('a listing has the sizes of its cells', async () => {
  const { store } = await openTestStore()
  const cell = store.cell('a')
  cell.sql('CREATE TABLE t (a)')
  cell.sql('INSERT INTO t VALUES (zeroblob(100000))')
  const [listed] = store.cells().cells
  expect(listed?.sizeBytes).toBe(cell.sizeBytes)
  expect(cell.sizeBytes).toBeGreaterThan(100_000)
  const looks = await store.lookAt([cell.id, '00000000-0000-4000-8000-000000000000'])
  expect(looks.map(({ sizeBytes }) => sizeBytes)).toEqual([cell.sizeBytes, 0])
})
