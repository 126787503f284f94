import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { filesBelow, tempDirectory } from '../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

describe('create', () => {
  test('makes a store in a directory that is not there, and in one that is there and empty', async () => {
    for (const directory of [path.join(tempDirectory(), 'a', 'b', 'data'), tempDirectory()]) {
      const store = await CellStore.create(directory)
      expect(store.id).toMatch(/^[0-9a-f-]{36}$/)
      await store.close()
      const again = await CellStore.open(directory)
      expect(again.id).toBe(store.id)
      await again.close()
    }
  })

  test('refuses a directory that holds a store, open or closed, and leaves it as it is', async () => {
    const { store, directory, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    expect(await rejectedBy(CellStore.create(directory))).toMatchObject({ code: 'store_exists' })
    await store.close()
    const before = filesBelow(directory)
    expect(await rejectedBy(CellStore.create(directory))).toMatchObject({ code: 'store_exists' })
    expect(filesBelow(directory)).toEqual(before)
    const again = await CellStore.open(directory)
    expect(again.openCell(cell.id).kv.get('k')).toBe('v')
    await again.close()
  })
})

describe('open', () => {
  test('refuses a directory that holds no store, makes nothing, and says how to make one', async () => {
    const root = tempDirectory()
    for (const directory of [path.join(root, 'none'), root]) {
      const error = await rejectedBy(CellStore.open(directory))
      expect(error).toMatchObject({ code: 'store_not_found', message: expect.stringContaining('create') })
    }
    expect(fs.readdirSync(root)).toEqual([])
  })

  test('finds everything as it was closed', async () => {
    const test = await openTestStore()
    const cells = Array.from({ length: 20 }, (_, i) => test.store.createCell({ name: `cell ${i}` }))
    for (const [i, cell] of cells.entries()) {
      cell.sql('CREATE TABLE t (a)')
      cell.sql('INSERT INTO t VALUES (?)', [i])
      cell.kv.put('k', String(i))
    }
    // The log goes into the database when a cell is closed.
    const listed = () => test.store.cells().cells.map(({ sizeBytes: _, ...record }) => record)
    const before = listed()
    const store = await test.reopen()
    expect(listed()).toEqual(before)
    for (const [i, { id }] of cells.entries()) {
      const cell = store.openCell(id)
      expect([cell.sql('SELECT a FROM t').rows, cell.kv.get('k')]).toEqual([[{ a: i }], String(i)])
    }
  })

  test('openOrCreate does whichever it is', async () => {
    const directory = path.join(tempDirectory(), 'data')
    const first = await CellStore.openOrCreate(directory)
    const cell = first.createCell()
    await first.close()
    const second = await CellStore.openOrCreate(directory)
    expect([second.id, second.cells().cells.map(({ id }) => id)]).toEqual([first.id, [cell.id]])
    await second.close()
  })

  test('a catalog of another schema version is refused, and so is a file that is none', async () => {
    const { store, directory } = await openTestStore()
    await store.close()
    const { catalog } = new StorePaths(directory)
    const sound = fs.readFileSync(catalog)
    const connection = new Database(catalog)
    connection.exec("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.close()
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'cell_quarantined' })
    fs.writeFileSync(catalog, 'no database at all, but long enough to be looked at'.repeat(100))
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'cell_quarantined' })
    fs.writeFileSync(catalog, '')
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'cell_quarantined' })
    // Nothing of those attempts is left that keeps the sound one from being opened.
    fs.writeFileSync(catalog, sound)
    await (await CellStore.open(directory)).close()
  })
})

describe('a start that fails leaves nothing behind', () => {
  const FAILING = { objectStore: 'file:///nowhere?unknown=parameter' }

  test('not the directory, nor those above it that it made', async () => {
    const root = tempDirectory()
    const directory = path.join(root, 'a', 'b', 'data')
    for (const start of [CellStore.create, CellStore.open, CellStore.openOrCreate]) {
      await expect(start(directory, FAILING)).rejects.toThrow()
      await expect(start(directory, unavailable())).rejects.toThrow()
    }
    expect(fs.readdirSync(root)).toEqual([])
  })

  test('nothing of its own in a directory that was there, and all that is not its own stays', async () => {
    const root = tempDirectory()
    fs.writeFileSync(path.join(root, 'notes.txt'), 'mine')
    for (const start of [CellStore.create, CellStore.open, CellStore.openOrCreate]) {
      await expect(start(root, unavailable())).rejects.toThrow()
      expect(fs.readdirSync(root)).toEqual(['notes.txt'])
    }
  })

  test('no lock: the next start is not refused', async () => {
    const directory = path.join(tempDirectory(), 'data')
    await expect(CellStore.create(directory, unavailable())).rejects.toThrow()
    await (await CellStore.create(directory)).close()
  })

  test.each([
    ['an empty path', ''],
    ['a path with a NUL', 'a\0b'],
    ['no path', undefined],
  ])('%s is an invalid setting', async (_what, directory) => {
    expect(await rejectedBy(CellStore.create(directory as string))).toMatchObject({ code: 'invalid_setting' })
  })

  test('a path with a file in the way is an invalid setting', async () => {
    const file = path.join(tempDirectory(), 'file')
    fs.writeFileSync(file, 'x')
    for (const directory of [file, path.join(file, 'data')]) {
      expect(await rejectedBy(CellStore.create(directory))).toMatchObject({ code: 'invalid_setting' })
      expect(await rejectedBy(CellStore.openOrCreate(directory))).toMatchObject({ code: 'invalid_setting' })
    }
    expect(fs.readFileSync(file, 'utf8')).toBe('x')
  })

  test('an object store inside the data directory is refused', async () => {
    const directory = path.join(tempDirectory(), 'data')
    const error = await rejectedBy(
      CellStore.create(directory, { objectStore: `file://${directory}/objects` }),
    )
    expect(error.code).toBe('invalid_setting')
    expect(fs.existsSync(directory)).toBe(false)
  })
})

describe('permissions', () => {
  test('every directory is 0700 and every file 0600, also while cells are open', async () => {
    const { store, directory, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    store.apiKeys.create(store.accounts.create().id)
    const modes = (kind: 'isFile' | 'isDirectory') => {
      const entries = fs.readdirSync(directory, { recursive: true, withFileTypes: true })
      const paths = entries
        .filter((entry) => entry[kind]())
        .map((entry) => path.join(entry.parentPath, entry.name))
      return new Set(paths.map((each) => (fs.statSync(each).mode & 0o777).toString(8)))
    }
    expect(fs.statSync(directory).mode & 0o777).toBe(0o700)
    expect([modes('isDirectory'), modes('isFile')]).toEqual([new Set(['700']), new Set(['600'])])
    await store.close()
    expect([modes('isDirectory'), modes('isFile')]).toEqual([new Set(['700']), new Set(['600'])])
  })
})

describe('close', () => {
  test('twice is once, and at the same time is the same', async () => {
    const { store } = await openTestStore()
    const [first, second] = [store.close(), store.close()]
    expect(first).toBe(second)
    await first
    await store.close()
  })

  test('ends every handle', async () => {
    const { store, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    const unused = store.createCell()
    await store.close()
    const uses: (() => unknown)[] = [
      () => cell.kv.get('k'),
      () => cell.kv.put('k', 'w'),
      () => cell.sql('SELECT 1'),
      () => cell.transaction(() => 1),
      () => unused.kv.get('k'),
      () => unused.sql('SELECT 1'),
      () => store.createCell(),
      () => store.openCell(cell.id),
      () => store.deleteCell(cell.id),
      () => store.cells(),
      () => store.findCell(cell.id),
      () => cell.sizeBytes,
      () => store.accounts.create(),
      () => store.accounts.list(),
      () => store.accounts.find('x'),
      () => store.apiKeys.create('x'),
      () => store.apiKeys.list('x'),
      () => store.apiKeys.revoke('x', 'y'),
      () => store.apiKeys.verify('cell_sk_x'),
      () => store.core.firstKey.pending,
    ]
    expect(uses.map((use) => codeOf(use))).toEqual(uses.map(() => 'store_closed'))
    expect(await rejectedBy(cell.commit(() => 1))).toMatchObject({ code: 'store_closed' })
    expect(await rejectedBy(cell.ensureLocal())).toMatchObject({ code: 'store_closed' })
  })

  test('makes nothing on a closed store', async () => {
    const { store, directory } = await openTestStore()
    await store.close()
    const before = filesBelow(directory)
    expect(codeOf(() => store.createCell())).toBe('store_closed')
    expect(filesBelow(directory)).toEqual(before)
  })

  test('is done by `await using`', async () => {
    const directory = path.join(tempDirectory(), 'data')
    {
      await using store = await CellStore.create(directory)
      store.createCell().kv.put('k', 'v')
    }
    await using again = await CellStore.open(directory)
    expect(again.cells().cells).toHaveLength(1)
  })

  test('goes on to the end when a part of it fails, and the directory is free', async () => {
    const { store, directory, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    const foreign = new Database(new StorePaths(directory).localState)
    foreign.exec('BEGIN IMMEDIATE')
    await store.close().catch(() => {})
    foreign.exec('ROLLBACK')
    foreign.close()
    const again = await CellStore.open(directory)
    expect(again.openCell(cell.id).kv.get('k')).toBe('v')
    await again.close()
  })
})

/** An object store that never answers, and a wait for it that is over at once. */
function unavailable() {
  return {
    objectStore: 's3://bucket/prefix?endpoint=http://127.0.0.1:9&region=us-east-1',
    objectStoreWaitMs: 1,
  }
}
