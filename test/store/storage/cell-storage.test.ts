import { describe, expect, test } from 'vitest'
import { openTestCell } from '../../support/open-test-store.ts'
import { codeOf, rejectedBy, thrownBy } from '../../support/thrown.ts'

const ARTISTS = `CREATE TABLE artists (id INTEGER PRIMARY KEY, name TEXT);
  INSERT INTO artists VALUES (1, 'Alice'), (2, 'Bob'), (3, 'Carol');`

async function openArtists() {
  const { cell, store } = await openTestCell()
  cell.storage.sql.exec(ARTISTS)
  return { cell, store, storage: cell.storage }
}

describe('sql.exec()', () => {
  test('gives a cursor over objects, whose raw() takes from the same rows', async () => {
    const { storage } = await openArtists()
    const cursor = storage.sql.exec<{ id: number; name: string }>('SELECT * FROM artists ORDER BY id')
    expect(cursor.columnNames).toEqual(['id', 'name'])
    expect(cursor.raw().next().value).toEqual([1, 'Alice'])
    expect([cursor.next(), cursor.rowsRead]).toEqual([{ done: false, value: { id: 2, name: 'Bob' } }, 2])
    expect(cursor.raw().toArray()).toEqual([[3, 'Carol']])
    expect([cursor.next(), cursor.toArray(), cursor.rowsRead]).toEqual([
      { done: true, value: undefined },
      [],
      3,
    ])
    expect([...storage.sql.exec('SELECT name FROM artists WHERE id > ? ORDER BY id', 1)]).toEqual([
      { name: 'Bob' },
      { name: 'Carol' },
    ])
  })

  test('one() takes exactly one row', async () => {
    const { storage } = await openArtists()
    const exec = (where: string) => storage.sql.exec(`SELECT name FROM artists WHERE ${where}`)
    expect(exec('id = 2').one()).toEqual({ name: 'Bob' })
    expect(thrownBy(() => exec('id > 2000').one()).message).toContain('it gave 0')
    expect(thrownBy(() => exec('id < 3').one()).message).toContain('it gave 2')
  })

  test('of several statements the last has the values and the rows, and all of them happen or none', async () => {
    const { cell, storage } = await openArtists()
    const insert = "INSERT INTO artists VALUES (4, 'Dan;'); -- and\n"
    const rows = storage.sql.exec(`${insert} SELECT name FROM artists WHERE id = ?; -- done`, 4).toArray()
    expect(rows).toEqual([{ name: 'Dan;' }])
    const failing = "INSERT INTO artists VALUES (5, 'Eve'); INSERT INTO artists VALUES (?, 'Fay')"
    expect(codeOf(() => storage.sql.exec(failing, 1))).toBe('constraint_violation')
    expect(codeOf(() => storage.sql.exec('INSERT INTO artists VALUES (5, 1); nonsense'))).toBe('sql_error')
    expect(codeOf(() => storage.sql.exec('nonsense; SELECT 1'))).toBe('sql_error')
    expect(cell.get('SELECT count(*) AS n FROM artists')).toEqual({ n: 4 })
    const trigger = `CREATE TRIGGER t AFTER INSERT ON artists BEGIN DELETE FROM artists WHERE id = 1; SELECT 1; END;
      INSERT INTO artists VALUES (6, 'Gus') RETURNING id`
    expect(storage.sql.exec(trigger).one()).toEqual({ id: 6 })
    expect(codeOf(() => storage.sql.exec(' ; '))).toBe('sql_error')
  })

  test('counts the rows that a statement has changed', async () => {
    const { storage } = await openArtists()
    expect(storage.sql.exec('UPDATE artists SET name = upper(name) WHERE id < 3').rowsWritten).toBe(2)
    expect(storage.sql.exec('SELECT * FROM artists').rowsWritten).toBe(0)
    expect(storage.sql.exec('DELETE FROM artists RETURNING id').rowsWritten).toBe(3)
  })

  test('takes bytes in every form, gives them as ArrayBuffers, and keeps integers exact', async () => {
    const { storage } = await openArtists()
    const bytes = new Uint8Array([1, 2, 3])
    const floats = new Float32Array([1.5])
    const part = new DataView(new Uint8Array([0, 9, 8, 0]).buffer, 1, 2)
    const values = storage.sql
      .exec('SELECT ?, ?, ?, ?, ?, ?, ?', bytes, bytes.buffer, floats, part, 2n ** 60n, null, 'x')
      .raw()
      .next().value
    expect(values).toEqual([
      bytes.buffer,
      bytes.buffer,
      floats.buffer,
      expect.anything(),
      2n ** 60n,
      null,
      'x',
    ])
    expect([...new Uint8Array(values?.[3] as ArrayBuffer)]).toEqual([9, 8])
    expect(new DataView(values?.[2] as ArrayBuffer).getFloat32(0, true)).toBe(1.5)
    expect(codeOf(() => storage.sql.exec('SELECT ?', undefined as never))).toBe('invalid_parameter')
    expect(storage.sql.databaseSize).toBeGreaterThan(0)
  })

  test('begins no transaction: transactionSync() does, and nests', async () => {
    const { storage } = await openArtists()
    for (const sql of ['BEGIN', 'SELECT 1; COMMIT', 'SAVEPOINT a'])
      expect(codeOf(() => storage.sql.exec(sql))).toBe('statement_not_allowed')
    const result = storage.transactionSync(() => {
      storage.sql.exec('DELETE FROM artists WHERE id = 1')
      const inner = () => {
        storage.sql.exec('DELETE FROM artists')
        throw new Error('undo')
      }
      expect(() => storage.transactionSync(inner)).toThrow('undo')
      return storage.sql.exec('SELECT count(*) AS n FROM artists').one()
    })
    expect(result).toEqual({ n: 2 })
    expect(codeOf(() => storage.transactionSync(async () => {}))).toBe('invalid_request')
    expect(codeOf(() => storage.transactionSync(() => Promise.resolve()))).toBe('invalid_request')
    const cursor = storage.transactionSync(() => storage.sql.exec('DELETE FROM artists'))
    expect(cursor.rowsWritten).toBe(2)
  })
})

describe('the keys and values', () => {
  test('hold what structuredClone() takes, and nothing else', async () => {
    const { cell } = await openTestCell()
    const { kv } = cell.storage
    const values = [
      { a: [1, null, undefined], at: new Date(0) },
      new Map([['x', new Set([1n])]]),
      new Uint8Array([1, 2]),
      'text',
      0,
      false,
      null,
    ]
    expect([kv.get('a'), kv.delete('a'), [...kv.list()]]).toEqual([undefined, false, []])
    for (const value of values) {
      kv.put('a', value)
      expect(kv.get('a')).toEqual(value)
    }
    expect(kv.get('a')).toBe(null)
    expect([kv.delete('a'), kv.delete('a'), kv.get('a')]).toEqual([true, false, undefined])
    expect(thrownBy(() => kv.put('a', () => 1))).toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('could not be cloned'),
    })
    expect(codeOf(() => kv.put('a', undefined))).toBe('invalid_request')
    expect(codeOf(() => kv.put(7 as never, 'x'))).toBe('invalid_key')
    expect(kv.get('a')).toBeUndefined()
    // The small buffers of Node.js share memory: only the bytes of this one are stored.
    kv.put('bytes', Buffer.from('abc'))
    expect(cell.get('SELECT length(value) AS n FROM _cf_KV')).toEqual({ n: expect.any(Number) })
    expect(cell.get<{ n: number }>('SELECT length(value) AS n FROM _cf_KV')?.n).toBeLessThan(32)
  })

  test('are not the entries of the cell, and are in its transactions and its backups', async () => {
    const { cell, store } = await openTestCell({ objectStore: undefined })
    cell.kv.put('a', 'entry')
    cell.storage.kv.put('a', { value: 1 })
    expect([cell.kv.get('a'), cell.storage.kv.get('a')]).toEqual(['entry', { value: 1 }])
    const undone = () =>
      cell.storage.transactionSync(() => {
        cell.storage.kv.put('b', 1)
        cell.sql('CREATE TABLE t (a)')
        throw new Error('undo')
      })
    expect(undone).toThrow('undo')
    expect([...cell.storage.kv.list()]).toEqual([['a', { value: 1 }]])
    expect(store.openCell(cell.id).storage.kv.get('a')).toEqual({ value: 1 })
  })

  test('are part of a hold, as tables are', async () => {
    const { cell } = await openTestCell()
    const refused = cell.hold(async ({ storage }) => {
      storage.sql.exec('CREATE TABLE t (a)')
      await storage.put('a', 1)
      expect([storage.kv.get('a'), cell.storage.kv.get('a')]).toEqual([1, undefined])
      throw new Error('undo')
    })
    await expect(refused).rejects.toThrow('undo')
    expect(cell.storage.kv.get('a')).toBeUndefined()
    await cell.hold(async ({ storage }) => storage.transactionSync(() => storage.kv.put('a', 2)))
    expect(cell.storage.kv.get('a')).toBe(2)
  })

  test('list() keeps to its bounds, in the order of the bytes', async () => {
    const { cell } = await openTestCell()
    const { kv } = cell.storage
    const keys = ['', 'a', 'a/1', 'a/2', 'b', 'z', '\uffff', '😀']
    for (const key of keys.toReversed()) kv.put(key, key.length)
    const listed = (options?: Parameters<typeof kv.list>[0]) => [...kv.list(options)].map(([key]) => key)
    expect(listed()).toEqual(keys)
    expect(listed({ prefix: 'a/' })).toEqual(['a/1', 'a/2'])
    expect(listed({ prefix: '' })).toEqual(keys)
    expect(listed({ start: 'a/1', end: 'z' })).toEqual(['a/1', 'a/2', 'b'])
    expect(listed({ startAfter: 'a/1', limit: 2 })).toEqual(['a/2', 'b'])
    expect(listed({ startAfter: '', limit: 1 })).toEqual(['a'])
    expect(listed({ end: '' })).toEqual([])
    expect(listed({ reverse: true, limit: 2 })).toEqual(['😀', '\uffff'])
    expect(listed({ reverse: true, start: 'a/2', end: 'z' })).toEqual(['b', 'a/2'])
    expect(codeOf(() => kv.list({ start: 'a', startAfter: 'a' }))).toBe('invalid_request')
  })

  test('the asynchronous methods take one key or several, all or none', async () => {
    const { cell } = await openTestCell()
    const { storage } = cell
    await storage.put('b', [1])
    await storage.put({ '\uffff': 2, '😀': 3, a: new Map() })
    expect(await storage.get('b')).toEqual([1])
    expect(await storage.get(['😀', 'b', 'none', '\uffff'])).toEqual(
      new Map<string, unknown>([
        ['b', [1]],
        ['\uffff', 2],
        ['😀', 3],
      ]),
    )
    expect([...(await storage.get(['😀', '\uffff'])).keys()]).toEqual(['\uffff', '😀'])
    expect(await storage.list({ limit: 1 })).toEqual(new Map([['a', new Map()]]))
    await expect(rejectedBy(storage.put({ c: 1, d: () => 1 }))).resolves.toMatchObject({
      code: 'invalid_request',
    })
    expect(await storage.get('c')).toBeUndefined()
    expect([await storage.delete(['a', 'b', 'none']), await storage.delete('b')]).toEqual([2, false])
  })
})
