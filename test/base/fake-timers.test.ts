import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { createHandler } from '../../src/index.ts'
import { type TemporaryStore, temporaryStore } from '../../src/testing/index.ts'
import { tempDirectory } from '../support/temp-directory.ts'

/** A test runner's fake timers stand still until the test moves them. No call of the library waits for them. */

describe('With vi.useFakeTimers()', () => {
  let temporary: TemporaryStore
  const open = async (options: Parameters<typeof temporaryStore>[0] = {}) => {
    temporary = await temporaryStore(options)
    return { store: temporary.store, cell: temporary.store.createCell() }
  }

  beforeEach(() => void vi.useFakeTimers())
  afterEach(async () => {
    await temporary.close()
    vi.useRealTimers()
  })

  test('cell.commit() resolves, alone and with others', async () => {
    const { cell } = await open()
    expect(await cell.commit(() => cell.kv.incr('n'))).toBe(1)
    expect(await Promise.all([1, 2, 3].map(() => cell.commit(() => cell.kv.incr('n'))))).toEqual([2, 3, 4])
    const { store } = temporary
    const others = Array.from({ length: 5 }, () => store.createCell())
    await Promise.all(others.map((other) => other.commit(() => other.kv.put('k', 'v'))))
  })

  test('cell.replicated() and a commit with durability remote resolve', async () => {
    const { store, cell } = await open()
    cell.kv.put('k', 'v')
    await cell.replicated()
    const remote = store.createCell({ durability: 'remote' })
    await remote.commit(() => remote.kv.put('k', 'v'))
  })

  test('backups, restores and new cells from them resolve', async () => {
    const { store, cell } = await open()
    cell.sql('CREATE TABLE t (a)')
    const { version } = await store.backups.snapshot(cell.id)
    cell.sql('INSERT INTO t VALUES (1)')
    await store.backups.incremental(cell.id)
    await store.backups.snapshot(cell.id)
    await store.backups.verify(cell.id)
    await store.backups.restore(cell.id, { version })
    expect(cell.sql('SELECT * FROM t').rows).toEqual([])
    const copy = await store.createCell({ from: { cellId: cell.id, version } })
    expect(copy.sql('SELECT * FROM t').rows).toEqual([])
    for await (const { version } of store.backups.list(cell.id)) expect(version).toBeTypeOf('string')
    await store.deleteCell(cell.id)
    await store.backups.restore(cell.id)
    await cell.ensureLocal()
  })

  test('imports, iterations and watches resolve', async () => {
    const { store, cell } = await open()
    const file = path.join(tempDirectory(), 'cell.db')
    cell.kv.put(Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, value: 'v' })))
    // The driver copies the database in turns of its own, with the setImmediate that it finds.
    vi.useRealTimers()
    await cell.export(file)
    vi.useFakeTimers()
    const copy = await store.importCell(file)
    let count = 0
    for await (const _ of copy.kv.keys({ limit: 50 })) count++
    expect(count).toBe(500)
    for await (const { id } of store.cells({ limit: 1 })) expect(id).toBeTypeOf('string')
    const changes: string[] = []
    for await (const { type } of cell.watch()) {
      changes.push(type)
      if (changes.length === 2) break
      cell.kv.put('k', 'w')
    }
    expect(changes).toEqual(['reset', 'commit'])
  })

  test('the handler and the client answer', async () => {
    const { store } = await open()
    const handler = createHandler(store)
    const { key } = store.apiKeys.create(store.accounts.create().id)
    const cells = createClient({
      baseUrl: 'http://cells.test',
      apiKey: key,
      fetch: (url, init) => handler(new Request(url, init)),
    })
    const { id } = await cells.createCell()
    await cells.sql({ id, sql: 'CREATE TABLE t (a)' })
    await Promise.all([1, 2].map((a) => cells.sql({ id, sql: 'INSERT INTO t VALUES (?)', params: [a] })))
    expect(await cells.sql({ id, sql: 'SELECT a FROM t' })).toMatchObject({ row_count: 2 })
    await cells.backup({ id })
  })

  test('a time to live ends when the test says so', async () => {
    const { cell } = await open()
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    vi.setSystemTime(Date.now() + 59_000)
    expect(cell.kv.get('k')).toBe('v')
    vi.setSystemTime(Date.now() + 1_000)
    expect(cell.kv.get('k')).toBeUndefined()
  })
})
