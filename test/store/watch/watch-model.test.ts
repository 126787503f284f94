import { expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { CellChange } from '../../../src/store/watch/cell-change.ts'
import { countOf } from '../../support/counts.ts'
import type { FakeClock } from '../../support/fake-clock.ts'
import { openTestStore } from '../../support/open-test-store.ts'
import type { Random } from '../../support/random.ts'
import { SEED, seededRandom } from '../../support/seed.ts'
import { turnsUntil } from '../../support/turns.ts'

/**
 * Random work on a watched cell. After each step the whole content is compared with the one before: whatever differs must
 * have been named by an event, and work that was undone must have none.
 */

const STEPS = countOf('CELLSTORE_WATCH_STEPS')
const KEYS = ['a', 'b', 'c', 'user/1', 'user/2', 'user/é']

const SCHEMA = `
  CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
  CREATE TABLE pets (id INTEGER PRIMARY KEY AUTOINCREMENT, owner REFERENCES owners ON DELETE CASCADE ON UPDATE SET NULL, n INT CHECK (n < 90));
  CREATE INDEX pets_by_owner ON pets (owner);
  CREATE TABLE "odd ""name" (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
  CREATE TABLE audit (what TEXT);
  CREATE VIRTUAL TABLE notes USING fts5 (body);
  CREATE TABLE plain (x);
  CREATE VIEW both AS SELECT o.id, o.name, p.n FROM owners o JOIN pets p ON p.owner = o.id;
  CREATE TRIGGER pets_audit AFTER DELETE ON pets BEGIN INSERT INTO audit VALUES ('gone ' || old.id); END;
  CREATE TRIGGER both_insert INSTEAD OF INSERT ON both BEGIN
    INSERT OR REPLACE INTO owners VALUES (new.id, new.name);
    INSERT INTO notes (body) SELECT new.name WHERE new.n > 5;
  END;
  CREATE TRIGGER plain_limit BEFORE INSERT ON plain WHEN new.x > 80 BEGIN SELECT RAISE(FAIL, 'too large'); END;
`

/** Placeholders are numbers from 0 to 99. */
const STATEMENTS = [
  'INSERT INTO owners VALUES (? % 9, ?)',
  'INSERT OR REPLACE INTO owners VALUES (? % 9, ? % 5)',
  'INSERT OR IGNORE INTO owners VALUES (? % 9, ? % 5)',
  'INSERT INTO owners VALUES (? % 9, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name',
  'UPDATE owners SET id = ? % 9 WHERE id = ? % 9',
  'UPDATE OR REPLACE owners SET name = ? % 5 WHERE id > ? % 9',
  'DELETE FROM owners WHERE id = ? % 9 AND ? > 3',
  'DELETE FROM owners RETURNING id, ?, ?',
  'DELETE FROM owners',
  'INSERT INTO pets (owner, n) VALUES (? % 9, ?)',
  'INSERT INTO pets (owner, n) SELECT id, ? FROM owners WHERE id < ? % 9',
  'WITH o AS (SELECT id FROM owners) INSERT INTO pets (owner, n) SELECT id, ? % ? FROM o RETURNING id',
  'UPDATE pets SET n = n + ? WHERE id % 3 = ? % 3 RETURNING n',
  'UPDATE OR FAIL pets SET n = n + ? WHERE id > ? % 4',
  'UPDATE OR ROLLBACK pets SET n = n + ? WHERE id > ? % 4',
  'DELETE FROM pets WHERE id % 5 = ? % 5 OR id = ?',
  'DELETE FROM pets',
  'INSERT OR REPLACE INTO "odd ""name" VALUES (? % 7, ?)',
  'DELETE FROM "odd ""name" WHERE k > ? OR k = ?',
  'INSERT INTO both VALUES (? % 9, ? % 5, 7)',
  'INSERT INTO both VALUES (? % 9, ? % 5, 1)',
  "INSERT INTO notes (body) VALUES ('note ' || ? || ?)",
  'DELETE FROM notes WHERE rowid % 3 = ? % 3 OR rowid = ?',
  "INSERT INTO notes (notes) VALUES ('optimize')",
  'INSERT INTO plain VALUES (?), (?)',
  'INSERT OR FAIL INTO plain SELECT n + ? FROM pets WHERE id > ? % 3',
  'UPDATE plain SET x = ? WHERE x = ?',
  'DELETE FROM plain',
  'DELETE FROM audit',
  'SELECT * FROM owners WHERE id = ? OR id = ?',
] as const

const SETTINGS = [
  'PRAGMA foreign_keys = OFF',
  'PRAGMA foreign_keys = ON',
  'PRAGMA recursive_triggers = ON',
  'PRAGMA recursive_triggers = OFF',
  'CREATE TABLE IF NOT EXISTS extra (x)',
  'DROP TABLE IF EXISTS extra',
  'CREATE TRIGGER IF NOT EXISTS late AFTER INSERT ON plain BEGIN INSERT INTO audit VALUES (new.x); END',
  'DROP TRIGGER IF EXISTS late',
  'CREATE TEMP TRIGGER IF NOT EXISTS later AFTER UPDATE ON plain BEGIN DELETE FROM audit; END',
  'DROP TRIGGER IF EXISTS temp.later',
  'PRAGMA optimize',
]

test(`no change of a cell goes unnoticed, and nothing that was undone is told (seed ${SEED})`, async () => {
  const random = seededRandom()
  const test = await openTestStore({ openCellsMax: 1 })
  const cell = test.store.createCell()
  const other = test.store.createCell()
  cell.exec(SCHEMA)
  const stream = cell.watch()
  stream.open()
  expect(stream.nextNow()).toMatchObject({ type: 'reset', reason: 'start' })
  let lastId = ''
  let commits = 0
  let named = 0
  for (let step = 0; step < STEPS; step++) {
    const before = contentOf(cell)
    // Reading has made no event, and changes no names.
    expect(eventsOf(stream)).toEqual([])
    const work = await perform(cell, random, test.clock)
    const events = eventsOf(stream)
    const after = contentOf(cell)
    const at = `step ${step}, ${work.what}`
    const { keys, tables } = union(events)
    const changedKeys = differences(before.entries, after.entries)
    const changedTables = differences(before.tables, after.tables)
    if (keys !== null)
      expect(
        changedKeys.filter((key) => !keys.has(key)),
        at,
      ).toEqual([])
    if (tables !== null)
      expect(
        changedTables.filter((table) => !tables.has(table)),
        at,
      ).toEqual([])
    if (work.isUndone) expect(events, at).toEqual([])
    if (work.isExact && keys !== null) {
      expect(tables?.size, at).toBe(0)
      expect(events.length, at).toBeLessThanOrEqual(1)
    }
    for (const { id } of events) {
      expect(numberOf(id), at).toBe(lastId === '' ? 1 : numberOf(lastId) + 1)
      lastId = id
    }
    commits += events.length
    named += tables?.size ?? 0
    // The pool closes the one and opens the other.
    if (random.chance(0.05)) other.kv.put('x', 'y')
  }
  // The test would prove nothing if hardly anything were named.
  expect(commits).toBeGreaterThan(STEPS / 4)
  expect(named).toBeGreaterThan(STEPS / 8)
}, 600_000)

interface Work {
  what: string
  /** All of it was rolled back. */
  isUndone: boolean
  /** Only entries were touched, in at most one commit. */
  isExact: boolean
}

async function perform(cell: Cell, random: Random, clock: FakeClock): Promise<Work> {
  const kind = random.below(12)
  if (kind < 3) return { what: touchEntry(cell, random), isUndone: false, isExact: true }
  if (kind < 6) return { what: attempt(cell, random), isUndone: false, isExact: false }
  if (kind === 6) {
    clock.advance(random.below(4) * 1_000)
    const expired = cell.prepare<number>('SELECT count(*) FROM _cell_kv WHERE expires_at <= ?').pluck()
    await turnsUntil(() => {
      clock.advance(10)
      return expired.get(clock.now()) === 0
    }, 'the collection of expired entries')
    return { what: 'collection', isUndone: false, isExact: false }
  }
  if (kind === 7) {
    const sql = random.pick(SETTINGS)
    cell.sql(sql)
    return { what: sql, isUndone: false, isExact: false }
  }
  if (kind < 10) return transaction(cell, random)
  return await group(cell, random)
}

function transaction(cell: Cell, random: Random): Work {
  const isUndone = random.chance(0.4)
  const done: string[] = []
  const error = failureOf(() =>
    cell.transaction(() => {
      for (let i = random.below(4); i >= 0; i--) done.push(piece(cell, random))
      if (isUndone) throw new Error('undone')
    }),
  )
  return { what: done.join('; '), isUndone: error !== undefined, isExact: false }
}

/** A part of a transaction, of which a savepoint may be undone. */
function piece(cell: Cell, random: Random): string {
  if (random.chance(0.4)) return touchEntry(cell, random)
  if (random.chance(0.6)) return attempt(cell, random)
  const isUndone = random.chance(0.5)
  const done: string[] = []
  failureOf(() =>
    cell.transaction(() => {
      done.push(touchEntry(cell, random), attempt(cell, random))
      if (random.chance(0.3)) done.push(piece(cell, random))
      if (isUndone) throw new Error('undone')
    }),
  )
  return `[${done.join('; ')}]${isUndone ? ' undone' : ''}`
}

/** Work that shares a commit; some of it fails. */
async function group(cell: Cell, random: Random): Promise<Work> {
  const done: string[] = []
  const works = Array.from({ length: 1 + random.below(4) }, () => {
    const isUndone = random.chance(0.3)
    // Work may run twice: it must choose the same then.
    const choices = random.below(1_000_000)
    return cell.commit(() => {
      const own = new (random.constructor as new (seed: number) => Random)(choices)
      done.push(own.chance(0.5) ? touchEntry(cell, own) : attempt(cell, own))
      if (isUndone) throw new Error('undone')
    })
  })
  const outcomes = await Promise.allSettled(works)
  return {
    what: done.join(' | '),
    isUndone: outcomes.every(({ status }) => status === 'rejected'),
    isExact: false,
  }
}

/** @returns what it did, or tried */
function attempt(cell: Cell, random: Random): string {
  const sql = random.pick(STATEMENTS)
  const count = sql.split('?').length - 1
  const params = Array.from({ length: count }, () => random.below(100))
  const error = failureOf(() => cell.sql(sql, params))
  return `${sql} (${params})${error === undefined ? '' : ' failed'}`
}

function touchEntry({ kv }: Cell, random: Random): string {
  const key = random.pick(KEYS)
  const second = random.pick(KEYS)
  const options = random.chance(0.4) ? { ttlSeconds: 1 + random.below(5) } : {}
  const acts: Record<string, () => unknown> = {
    put: () => kv.put(key, String(random.below(10)), options),
    'put if absent': () => kv.put(key, '1', { ifVersion: null }),
    'put all': () =>
      kv.put([
        { key, value: '1', ...options },
        { key: second, value: '2' },
      ]),
    incr: () => kv.incr(key, 3, options),
    expire: () => kv.expire(key, random.chance(0.5) ? null : 2),
    delete: () => kv.delete(key),
    'delete all': () => kv.delete([key, second]),
    getdel: () => kv.getdel(key),
    get: () => kv.get(key),
  }
  const name = random.pick(Object.keys(acts))
  failureOf(acts[name] as () => unknown)
  return `${name} ${key} ${second}`
}

interface Content {
  entries: Map<string, string>
  tables: Map<string, string>
}

function contentOf(cell: Cell): Content {
  const { rows } = cell.sql<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cell%' ESCAPE '\\'",
  )
  const tables = rows.map(({ name }): [string, string] => {
    const quoted = name.replaceAll('"', '""')
    // FTS5 makes no promises of what is in its own tables.
    return [name, JSON.stringify(cell.sql(`SELECT * FROM "${quoted}"`).rows)]
  })
  const entries = cell.kv
    .list({ limit: 1_000 })
    .entries.map((entry): [string, string] => [
      entry.key,
      JSON.stringify([entry.value, entry.version, entry.expiresAt]),
    ])
  return { entries: new Map(entries), tables: new Map(tables) }
}

function differences(before: Map<string, string>, after: Map<string, string>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => before.get(name) !== after.get(name),
  )
}

type Commit = Extract<CellChange, { type: 'commit' }>

function eventsOf(stream: { nextNow(): CellChange | undefined }): Commit[] {
  const events: Commit[] = []
  for (let change = stream.nextNow(); change !== undefined; change = stream.nextNow()) {
    if (change.type !== 'commit') throw new Error(`a reset: ${change.reason}`)
    events.push(change)
  }
  return events
}

function union(events: readonly Commit[]): { keys: Set<string> | null; tables: Set<string> | null } {
  const all = (name: 'keys' | 'tables') =>
    events.some((event) => event[name] === null)
      ? null
      : new Set(events.flatMap((event) => event[name] ?? []))
  return { keys: all('keys'), tables: all('tables') }
}

function numberOf(id: string): number {
  return Number(id.split('-')[1])
}

function failureOf(run: () => unknown): unknown {
  try {
    run()
    return undefined
  } catch (error) {
    return error
  }
}
