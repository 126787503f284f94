import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { countOf } from '../support/counts.ts'
import { openTestCell } from '../support/open-test-store.ts'
import type { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

const LIMIT = 262_144

test.each(['tenant', 'trusted'] as const)(
  'the SQL text of a cell’s schema is bounded, and what would make it longer leaves nothing (%s)',
  async (policy) => {
    const { cell } = await openTestCell({ limits: { schemaBytesMax: 20_000 } })
    const sql = (text: string) => cell.sql(text, [], { policy })
    const view = (n: number) => sql(`CREATE VIEW v${n} AS SELECT 1 IN (${'1,'.repeat(3_000)}1) AS a`)
    const schema = () => sql('SELECT name FROM sqlite_schema ORDER BY name').rows
    for (const n of [1, 2, 3]) view(n)
    const before = schema()
    expect(thrownBy(() => view(4))).toMatchObject({ code: 'cell_full', details: { limit: 20_000 } })
    const renaming = `ALTER TABLE ${'t'.repeat(500)} RENAME TO ${'u'.repeat(2_000)}`
    expect(codeOf(() => sql(`CREATE TABLE t (a CHECK (a <> '${'x'.repeat(3_000)}'))`))).toBe('cell_full')
    sql(`CREATE TABLE ${'t'.repeat(500)} (a)`)
    expect(codeOf(() => sql(renaming))).toBe('cell_full')
    sql(`DROP TABLE ${'t'.repeat(500)}`)
    expect(schema()).toEqual(before)
    sql('DROP VIEW v1')
    view(4)
    cell.kv.put('k', 'v')
    expect(cell.kv.get('k')).toBe('v')
  },
)

describe('a cell that is full', () => {
  test('refuses what would make it larger, with the limit; reads and deletes still work, and make room', async () => {
    const { cell, directory } = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    cell.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    let rows = 0
    const fill = () => {
      for (;;) {
        cell.sql('INSERT INTO t (b) VALUES (zeroblob(3000))')
        rows++
      }
    }
    expect(thrownBy(fill)).toMatchObject({
      code: 'cell_full',
      details: { limit: LIMIT, sqliteCode: 'SQLITE_FULL' },
    })
    expect(rows).toBeGreaterThan(40)
    expect(codeOf(() => cell.kv.put('k', 'x'.repeat(5_000)))).toBe('cell_full')
    expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: rows }])
    expect(cell.kv.get('k')).toBeUndefined()
    expect(cell.sql('DELETE FROM t WHERE a % 2').changes).toBeGreaterThan(20)
    cell.kv.put('k', 'x'.repeat(5_000))
    cell.sql('INSERT INTO t (b) VALUES (zeroblob(3000))')
    expect(fs.statSync(new StorePaths(directory).cell(cell.id).database).size).toBeLessThanOrEqual(LIMIT)
  })

  test('holds the limit again after it was opened again', async () => {
    const test = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    await test.reopen()
    const cell = test.store.openCell(test.cell.id)
    cell.sql('CREATE TABLE t (b)')
    expect(codeOf(() => cell.sql('INSERT INTO t VALUES (zeroblob(300000))'))).toBe('cell_full')
  })

  test('with a limit below its size still serves reads and deletes', async () => {
    const test = await openTestCell()
    test.cell.sql('CREATE TABLE t (b)')
    test.cell.sql('INSERT INTO t VALUES (zeroblob(500000)), (zeroblob(1000))')
    await test.reopen({ limits: { cellBytesMax: LIMIT } })
    const cell = test.store.openCell(test.cell.id)
    expect(codeOf(() => cell.sql('INSERT INTO t VALUES (zeroblob(100000))'))).toBe('cell_full')
    expect(cell.sql('DELETE FROM t WHERE length(b) > 1000').changes).toBe(1)
    cell.sql('INSERT INTO t VALUES (zeroblob(100000))')
    expect(cell.sql('SELECT sum(length(b)) AS n FROM t').rows).toEqual([{ n: 101_000 }])
  })

  test('does not keep another cell from growing', async () => {
    const { cell, store } = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    const other = store.createCell()
    expect(codeOf(() => cell.kv.put('k', 'x'.repeat(400_000)))).toBe('cell_full')
    other.kv.put('k', 'x'.repeat(100_000))
  })
})

const ROUNDS = countOf('CELLSTORE_ROUNDS')
/** What deletions may take on top of the bound: see DeleteReserve. */
const ROOM = 64 * 4_096

const text = (random: Random, max: number) =>
  Array.from({ length: 1 + random.below(max) }, () => String.fromCharCode(97 + random.below(26))).join('')

/** Ways to fill a cell, each with a way to take single rows out again. */
const CONTENTS: Record<
  string,
  { schema?: string[]; put(cell: Cell, random: Random, i: number): void; keys?: string; remove: string }
> = {
  'KV entries that expire': {
    put: (cell, random, i) =>
      cell.kv.put(text(random, 900) + i, text(random, 3_000), { ttlSeconds: 1_000 + i }),
    remove: '',
  },
  'rows with two indexes': {
    schema: [
      'CREATE TABLE t (a INTEGER PRIMARY KEY, b, c)',
      'CREATE INDEX tb ON t (b)',
      'CREATE INDEX tcb ON t (c, b)',
    ],
    put: (cell, random) =>
      cell.sql('INSERT INTO t (b, c) VALUES (?, ?)', [text(random, 900), text(random, 600)]),
    remove: 'DELETE FROM t WHERE a = ?',
  },
  'rows with overflow pages': {
    schema: ['CREATE TABLE t (a INTEGER PRIMARY KEY, b)', 'CREATE INDEX tb ON t (b)'],
    put: (cell, random) => cell.sql('INSERT INTO t (b) VALUES (?)', [text(random, 9_000)]),
    remove: 'DELETE FROM t WHERE a = ? RETURNING a',
  },
  'a table without rowids': {
    schema: ['CREATE TABLE t (a TEXT PRIMARY KEY, b) WITHOUT ROWID', 'CREATE INDEX tb ON t (b)'],
    put: (cell, random, i) =>
      cell.sql('INSERT INTO t VALUES (?, ?)', [text(random, 900) + i, text(random, 900)]),
    remove: 'DELETE FROM t WHERE a = ?',
  },
  'a full-text index': {
    schema: ['CREATE VIRTUAL TABLE t USING fts5(b)'],
    put: (cell, random) =>
      cell.sql('INSERT INTO t (b) VALUES (?)', [Array.from({ length: 20 }, () => text(random, 8)).join(' ')]),
    keys: 'rowid',
    remove: 'DELETE FROM t WHERE rowid = ?',
  },
}

describe('a full cell can be emptied, row by row', () => {
  test.each(Object.keys(CONTENTS))('%s', async (name) => {
    const { schema = [], put, keys = 'a', remove } = CONTENTS[name] as (typeof CONTENTS)[string]
    const random = seededRandom()
    const test = await openTestCell({ limits: { cellBytesMax: LIMIT }, durability: 'relaxed' })
    for (let round = 0; round < ROUNDS; round++) {
      const cell = test.store.createCell()
      const file = new StorePaths(test.directory).cell(cell.id).database
      for (const sql of schema) cell.sql(sql)
      fillUp(cell, (i) => put(cell, random, i))
      const left =
        remove === ''
          ? allKeys(cell)
          : cell.sql(`SELECT ${keys} FROM t`, [], { rowMode: 'array' }).rows.flat()
      expect(left.length).toBeGreaterThan(10)
      while (left.length > 0) {
        const [key] = left.splice(random.below(left.length), 1)
        if (remove === '') cell.kv.delete(key as string)
        else cell.sql(remove, [key as string])
      }
      fillUp(cell, (i) => put(cell, random, i))
      cell.sql('PRAGMA user_version = 1')
      expect(fs.statSync(file).size).toBeLessThanOrEqual(LIMIT + ROOM)
      test.store.deleteCell(cell.id)
    }
  })

  test('also in a transaction and in a group, where a full-text index writes only at the COMMIT', async () => {
    const { put } = CONTENTS['a full-text index'] as (typeof CONTENTS)[string]
    const random = seededRandom()
    const { cell } = await openTestCell({ limits: { cellBytesMax: LIMIT }, durability: 'relaxed' })
    cell.sql('CREATE VIRTUAL TABLE t USING fts5(b)')
    fillUp(cell, (i) => put(cell, random, i))
    const rowids = cell.sql('SELECT rowid FROM t', [], { rowMode: 'array' }).rows.flat()
    const remove = (rowid: unknown) => cell.sql('DELETE FROM t WHERE rowid = ?', [rowid as number]).changes
    for (let i = 0; i < 5; i++) {
      cell.transaction(() => rowids.splice(0, 3).map(remove))
      const group = rowids.splice(0, 3).map((rowid) => cell.commit(() => remove(rowid)))
      expect(await Promise.all(group)).toEqual([1, 1, 1])
    }
  })

  test('and insertions into a full-text index, which writes at the COMMIT, leave them the room above the bound', async () => {
    const { put } = CONTENTS['a full-text index'] as (typeof CONTENTS)[string]
    const random = seededRandom()
    const { cell } = await openTestCell({ limits: { cellBytesMax: LIMIT }, durability: 'relaxed' })
    cell.sql('CREATE VIRTUAL TABLE t USING fts5(b)')
    const insert = (i: number) => cell.transaction(() => put(cell, random, i))
    fillUp(cell, insert)
    fillUp(cell, insert)
    const [{ n }] = cell.sql('SELECT page_count AS n FROM pragma_page_count').rows as [{ n: number }]
    expect(n * 4_096).toBeLessThanOrEqual(LIMIT)
    expect(cell.transaction(() => cell.sql('DELETE FROM t WHERE rowid = 1').changes)).toBe(1)
  })

  test('by keys at once, by expiry, and by dropping a table', async () => {
    const { put } = CONTENTS['KV entries that expire'] as (typeof CONTENTS)[string]
    const random = seededRandom()
    const { cell, clock } = await openTestCell({ limits: { cellBytesMax: LIMIT }, durability: 'relaxed' })
    fillUp(cell, (i) => put(cell, random, i))
    const keys = allKeys(cell)
    const some = keys.slice(0, keys.length / 2)
    expect(cell.kv.delete(some)).toEqual(some.map(() => true))
    fillUp(cell, (i) => put(cell, random, i))
    // The time of all has come before the collection begins, and none passes while it runs.
    clock.step(10_000_000)
    clock.advance(clock.nextTimerMs as number)
    const rows = () => cell.sql('SELECT count(*) AS n FROM _cell_kv').rows
    await turnsUntil(() => rows()[0]?.['n'] === 0, 'all has been collected')
    cell.sql('CREATE TABLE t (b)')
    fillUp(cell, () => cell.sql('INSERT INTO t VALUES (zeroblob(3000))'))
    cell.sql('DROP TABLE t')
    cell.kv.put('k', 'x'.repeat(100_000))
  })
})

test('one that can not commit for want of room does not fail its neighbours in the group (invariant 8)', async () => {
  const { put } = CONTENTS['a full-text index'] as (typeof CONTENTS)[string]
  const random = seededRandom()
  const { cell } = await openTestCell({ limits: { cellBytesMax: LIMIT }, durability: 'relaxed' })
  cell.sql('CREATE TABLE n (a)')
  cell.sql('INSERT INTO n VALUES (0)')
  cell.sql('CREATE VIRTUAL TABLE t USING fts5(b)')
  fillUp(cell, (i) => put(cell, random, i))
  const large = Array.from({ length: 60_000 }, () => text(random, 8)).join(' ')
  const settled = await Promise.allSettled([
    cell.commit(() => cell.sql('UPDATE n SET a = a + 1').changes),
    cell.commit(() => cell.sql('INSERT INTO t (b) VALUES (?)', [large])),
    cell.commit(() => cell.sql('UPDATE n SET a = a + 1').changes),
  ])
  expect(settled).toMatchObject([{ value: 1 }, { reason: { code: 'cell_full' } }, { value: 1 }])
  expect(cell.sql('SELECT a FROM n').rows).toEqual([{ a: 2 }])
})

/** Until the cell has refused so often that not much room can be left in it. */
function fillUp(cell: Cell, put: (i: number) => void): void {
  for (let i = 0, refused = 0; refused < 20; i++) {
    try {
      put(i)
    } catch (error) {
      expect(error).toMatchObject({ code: 'cell_full' })
      refused++
    }
  }
  expect(codeOf(() => cell.sql('CREATE TABLE too_much AS SELECT zeroblob(300000)'))).toBe('cell_full')
}

function allKeys(cell: Cell): string[] {
  const keys: string[] = []
  for (let cursor: string | undefined; ; ) {
    const { entries, nextCursor } = cell.kv.list({ limit: 1_000, cursor, values: false })
    keys.push(...entries.map(({ key }) => key))
    if (nextCursor === null) return keys
    cursor = nextCursor
  }
}
