import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Idempotency } from '../../src/auth/idempotency.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { openConnection } from '../../src/engine/sqlite.ts'
import { Checkpoints } from '../../src/engine/wal/checkpoints.ts'
import { CellError } from '../../src/errors.ts'
import { TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { codeOf, rejectedBy, thrownBy } from '../support/thrown.ts'

const NONE = '00000000-0000-4000-8000-000000000000'
const NO_IDS = [
  NONE,
  '',
  '.',
  '..',
  '../..',
  'x',
  NONE.toUpperCase(),
  `${NONE} `,
  `${NONE}/`,
  'a'.repeat(1_000),
  '\0',
]

describe('createCell', () => {
  test('gives each a UUID of its own, and a directory below its first two characters', async () => {
    const { store, directory } = await openTestStore()
    const ids = Array.from({ length: 10 }, () => store.createCell().id)
    expect(new Set(ids).size).toBe(10)
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(fs.existsSync(path.join(directory, 'cells', id.slice(0, 2), id, 'cell.db'))).toBe(true)
    }
  })

  test('keeps what it was told', async () => {
    const { store } = await openTestStore()
    const account = store.accounts.create()
    const cell = store.createCell({ name: 'acme', accountId: account.id, durability: 'relaxed' })
    expect(store.findCell(cell.id)).toEqual({
      id: cell.id,
      name: 'acme',
      accountId: account.id,
      durability: 'relaxed',
      createdAt: TEST_EPOCH_MS,
      deletedAt: null,
    })
    expect(store.findCell(store.createCell().id)).toMatchObject({
      name: null,
      accountId: null,
      durability: null,
    })
  })

  test('takes a name of up to 255 characters', async () => {
    const { store } = await openTestStore()
    expect(store.findCell(store.createCell({ name: 'é'.repeat(255) }).id)?.name).toHaveLength(255)
    for (const name of ['x'.repeat(256), '\ud800', 7, null, {}]) {
      expect(thrownBy(() => store.createCell({ name: name as string }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'name' },
      })
    }
    expect(store.cells().cells).toHaveLength(1)
  })

  test('takes only a durability that there is', async () => {
    const { store } = await openTestStore()
    for (const durability of ['FULL', '', 'none', 1, null, Symbol('full')]) {
      expect(thrownBy(() => store.createCell({ durability: durability as 'full' }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'durability' },
      })
    }
  })

  test('a cell is empty: no table of anybody’s, nothing in KV', async () => {
    const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
    expect(
      cell.sql('PRAGMA table_list').rows.filter(({ name }) => !String(name).startsWith('sqlite_')),
    ).toEqual(expect.not.arrayContaining([expect.objectContaining({ name: 'cell_kv', schema: 'main' })]))
    expect(cell.sql('PRAGMA user_version').rows).toEqual([{ user_version: 0 }])
    expect(cell.kv.list().entries).toEqual([])
  })

  test('that cannot be written to the catalog leaves no file', async () => {
    const { store, directory } = await openTestStore()
    store.createCell()
    const accountId = store.accounts.create().id
    const before = filesBelow(directory)
    const refusal = new CellError('constraint_violation', 'The catalog refuses it.')
    const insert = vi.spyOn(Idempotency.prototype, 'insert').mockImplementation(() => {
      throw refusal
    })
    onTestFinished(() => insert.mockRestore())
    const idempotency = { method: 'POST', path: '/', key: 'k', fingerprint: 'f' }
    expect(thrownBy(() => store.createCell({ accountId, idempotency }))).toBe(refusal)
    expect(filesBelow(directory)).toEqual(before)
    expect(store.cells().cells).toHaveLength(1)
  })
})

describe('openCell', () => {
  test('gives a handle on the same cell', async () => {
    const { store, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    expect(store.openCell(cell.id).kv.get('k')).toBe('v')
    expect(store.openCell(cell.id).id).toBe(cell.id)
  })

  test.each(NO_IDS)('%j is not the id of a cell', async (id) => {
    const { store } = await openTestStore()
    expect(codeOf(() => store.openCell(id))).toBe('cell_not_found')
    expect(codeOf(() => store.deleteCell(id))).toBe('cell_not_found')
    expect(store.findCell(id)).toBeUndefined()
  })

  test('neither the catalog nor the store’s id is a cell', async () => {
    const { store } = await openTestStore()
    for (const id of [store.id, 'catalog']) expect(codeOf(() => store.openCell(id))).toBe('cell_not_found')
  })

  test('a cell whose file is gone, and that has no backup, is never shown empty (invariant 14)', async () => {
    const test = await openTestCell()
    test.cell.kv.put('k', 'v')
    await test.reopen()
    fs.rmSync(new StorePaths(test.directory).cell(test.cell.id).directory, { recursive: true })
    const cell = test.store.openCell(test.cell.id)
    expect(codeOf(() => cell.kv.get('k'))).toBe('no_backup')
    expect(codeOf(() => cell.sql('CREATE TABLE t (a)'))).toBe('no_backup')
    expect(await rejectedBy(test.store.openCell(cell.id).ensureLocal())).toMatchObject({ code: 'no_backup' })
    expect(test.store.openCell(cell.id).sizeBytes).toBe(0)
    expect(fs.existsSync(new StorePaths(test.directory).cell(cell.id).database)).toBe(false)
  })

  test('a file that is no cell, or of a newer version, is kept closed', async () => {
    const test = await openTestStore()
    // As another program does it: through a cell, the engine's tables can't be changed.
    const change = (id: string, sql: string) => {
      const connection = openConnection(new StorePaths(test.directory).cell(id).database)
      connection.exec(sql)
      connection.close()
    }
    const [noCell, newer, sound] = [test.store.createCell(), test.store.createCell(), test.store.createCell()]
    await test.store.close()
    change(noCell.id, 'DROP TABLE _cell_meta')
    change(newer.id, "UPDATE _cell_meta SET value = 3 WHERE key = 'schema_version'")
    await test.reopen()
    for (const { id } of [noCell, newer]) {
      for (let i = 0; i < 2; i++) {
        expect(codeOf(() => test.store.openCell(id).kv.get('k'))).toBe('cell_quarantined')
      }
    }
    test.store.openCell(sound.id).kv.put('k', 'v')
  })
})

describe('deleteCell', () => {
  test('closes the cell without a checkpoint: its files go anyway', async () => {
    const { store } = await openTestStore()
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    const closing = vi.spyOn(Checkpoints.prototype, 'closing')
    onTestFinished(() => void closing.mockRestore())
    store.deleteCell(cell.id)
    expect(closing).not.toHaveBeenCalled()
    expect(thrownBy(() => cell.kv.get('k'))).toMatchObject({ code: 'cell_not_found' })
  })

  test('ends every handle, removes the files, and remembers that it was there', async () => {
    const { clock, store, directory, cell } = await openTestCell()
    const other = store.openCell(cell.id)
    cell.kv.put('k', 'v')
    clock.step(5_000)
    store.deleteCell(cell.id)
    for (const handle of [cell, other]) {
      expect(codeOf(() => handle.kv.get('k'))).toBe('cell_not_found')
      expect(codeOf(() => handle.sql('SELECT 1'))).toBe('cell_not_found')
      expect(codeOf(() => handle.transaction(() => 1))).toBe('cell_not_found')
    }
    expect(codeOf(() => store.openCell(cell.id))).toBe('cell_not_found')
    expect(codeOf(() => store.deleteCell(cell.id))).toBe('cell_not_found')
    expect(fs.existsSync(new StorePaths(directory).cell(cell.id).directory)).toBe(false)
    expect(store.findCell(cell.id)).toMatchObject({ deletedAt: TEST_EPOCH_MS + 5_000 })
    expect(store.cells().cells).toEqual([])
  })

  test('is still so after a restart', async () => {
    const test = await openTestCell()
    test.store.deleteCell(test.cell.id)
    await test.reopen()
    expect(codeOf(() => test.store.openCell(test.cell.id))).toBe('cell_not_found')
  })

  test('inside the cell’s own transaction is refused', async () => {
    const { store, cell } = await openTestCell()
    cell.transaction(() => {
      cell.kv.put('k', 'v')
      expect(codeOf(() => store.deleteCell(cell.id))).toBe('invalid_request')
    })
    expect(cell.kv.get('k')).toBe('v')
    store.deleteCell(cell.id)
    expect(codeOf(() => cell.kv.get('k'))).toBe('cell_not_found')
  })

  test('touches no neighbour', async () => {
    const { store, cell } = await openTestCell()
    const neighbour = store.createCell()
    neighbour.kv.put('k', 'v')
    store.deleteCell(cell.id)
    expect(neighbour.kv.get('k')).toBe('v')
  })
})

describe('cells', () => {
  test('lists those that are there in the order they were made, page by page', async () => {
    const { clock, store } = await openTestStore()
    const ids = Array.from({ length: 25 }, () => {
      clock.step(-1_000)
      return store.createCell().id
    })
    store.deleteCell(ids[3] as string)
    const left = ids.filter((_, i) => i !== 3)
    for (const limit of [1, 7, 24, 25, 100]) {
      const pages: string[][] = []
      let cursor: string | undefined
      do {
        const page = store.cells({ limit, cursor })
        pages.push(page.cells.map(({ id }) => id))
        cursor = page.nextCursor ?? undefined
      } while (cursor !== undefined)
      expect(pages.flat()).toEqual(left)
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true)
    }
  })

  test('of an account are its own, and no others', async () => {
    const { store } = await openTestStore()
    const [a, b] = [store.accounts.create().id, store.accounts.create().id]
    const ofA = [store.createCell({ accountId: a }).id, store.createCell({ accountId: a }).id]
    const ofB = store.createCell({ accountId: b }).id
    const free = store.createCell().id
    expect(store.cells({ accountId: a }).cells.map(({ id }) => id)).toEqual(ofA)
    expect(store.cells({ accountId: b }).cells.map(({ id }) => id)).toEqual([ofB])
    expect(store.cells({ accountId: NONE }).cells).toEqual([])
    expect(store.cells().cells.map(({ id }) => id)).toEqual([...ofA, ofB, free])
    const { nextCursor } = store.cells({ accountId: a, limit: 1 })
    expect(store.cells({ accountId: a, cursor: nextCursor ?? '' }).cells.map(({ id }) => id)).toEqual([
      ofA[1],
    ])
  })

  test('a cursor holds its place while cells come and go', async () => {
    const { store } = await openTestStore()
    const ids = Array.from({ length: 6 }, () => store.createCell().id)
    const { nextCursor } = store.cells({ limit: 2 })
    store.deleteCell(ids[1] as string)
    store.deleteCell(ids[2] as string)
    const added = store.createCell().id
    expect(store.cells({ cursor: nextCursor ?? '' }).cells.map(({ id }) => id)).toEqual([
      ...ids.slice(3),
      added,
    ])
  })

  test('a limit from 1 to the largest is taken, and no other', async () => {
    const { store } = await openTestStore({ limits: { pageMax: 50 } })
    for (let i = 0; i < 51; i++) store.createCell()
    expect([store.cells({ limit: 1 }).cells.length, store.cells({ limit: 50 }).cells.length]).toEqual([1, 50])
    expect(store.cells().cells).toHaveLength(50)
    for (const limit of [0, 51, -1, 1.5, Number.NaN, '10', null]) {
      expect(thrownBy(() => store.cells({ limit: limit as number }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'limit', limit: 50 },
      })
    }
  })

  test.each(['', 'x', 'MQ==', 'MA', 'LTE', 'MS41', '!', 7, null])('%j is no cursor', async (cursor) => {
    const { store } = await openTestStore()
    expect(thrownBy(() => store.cells({ cursor: cursor as string }))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'cursor' },
    })
  })
})

test('cellSizeBytes is that of the database and its log', async () => {
  const { store, cell } = await openTestCell()
  const before = store.openCell(cell.id).sizeBytes
  expect(before).toBeGreaterThan(4_096)
  cell.kv.put('k', 'x'.repeat(500_000))
  expect(store.openCell(cell.id).sizeBytes).toBeGreaterThan(before + 500_000)
})
