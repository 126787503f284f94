import type { BatchableOperation } from '../../../src/service/operations.ts'
import type { Cell } from '../../../src/store/open/cell.ts'

/**
 * What the programs write to a cell: numbered entries, each one transaction that touches a row, a key and a tally, so
 * that half of one would show. Every fifth takes the oldest entry away, so that pages are freed and used again.
 */
export function prepareLedger(cell: Cell): void {
  cell.transaction(() => {
    for (const sql of LEDGER_SCHEMA) cell.sql(sql)
  })
}

/** In one transaction. */
export const LEDGER_SCHEMA = [
  'CREATE TABLE ledger (n INTEGER PRIMARY KEY, body TEXT NOT NULL)',
  'CREATE TABLE tally (entries INTEGER NOT NULL, sum INTEGER NOT NULL)',
  'INSERT INTO tally VALUES (0, 0)',
]

function bodyOf(n: number): string {
  return `${n}.`.repeat(n % 40 === 39 ? 5_000 : 1 + ((n * 7_919) % 500))
}

/** Not in a transaction by itself: both `cell.transaction` and `cell.commit` give it one. */
export function writeEntry(cell: Cell, n: number): void {
  cell.sql('INSERT INTO ledger VALUES (?, ?)', [n, bodyOf(n)])
  cell.kv.put(`k${n}`, bodyOf(n))
  cell.sql('UPDATE tally SET entries = entries + 1, sum = sum + ?', [n])
  if (!takesOldest(n)) return
  const oldest = cell.sql<{ n: number }>('SELECT min(n) AS n FROM ledger').rows[0]?.n as number
  cell.sql('DELETE FROM ledger WHERE n = ?', [oldest])
  cell.kv.delete(`k${oldest}`)
  cell.sql('UPDATE tally SET entries = entries - 1, sum = sum - ?', [oldest])
}

/** A number of an entry that takes none away: the i-th of them, from 0. */
export function steadyNumber(i: number): number {
  return i * 5 + 1
}

/** The same as operations of one batch, for an entry that takes none away. */
export function entryOperations(n: number): BatchableOperation[] {
  return [
    { op: 'sql', sql: 'INSERT INTO ledger VALUES (?, ?)', params: [n, bodyOf(n)] },
    { op: 'kv.put', key: `k${n}`, value: bodyOf(n) },
    { op: 'sql', sql: 'UPDATE tally SET entries = entries + 1, sum = sum + ?', params: [n] },
  ]
}

/** The entries that are there after one more was written. */
export function entriesAfter(entries: readonly number[], n: number): number[] {
  return [...entries, n].slice(takesOldest(n) ? 1 : 0)
}

function takesOldest(n: number): boolean {
  return n % 5 === 0
}

/**
 * The numbers of the entries that a cell holds, in order; undefined if there is no ledger in it yet.
 *
 * @throws if one of them is there by half, or not as it was written
 */
export function readLedger(cell: Cell): number[] | undefined {
  const tables = cell.sql("SELECT name FROM sqlite_schema WHERE name IN ('ledger', 'tally')").rows.length
  if (tables === 0) return undefined
  if (tables === 1) throw new Error('Half a schema')
  const rows = cell.sql<{ n: number; body: string }>('SELECT n, body FROM ledger ORDER BY n').rows
  const numbers = rows.map(({ n }) => n)
  const changed = rows.find(({ n, body }) => body !== bodyOf(n))
  if (changed !== undefined) throw new Error(`Entry ${changed.n} is not as it was written`)
  const keys = cell.sql<{ key: string; value: string }>('SELECT key, value FROM cell_kv').rows
  const byKey = new Map(keys.map(({ key, value }) => [key, value]))
  if (byKey.size !== numbers.length || numbers.some((n) => byKey.get(`k${n}`) !== bodyOf(n))) {
    throw new Error(`Rows ${numbers} and keys ${[...byKey.keys()]} do not agree`)
  }
  const sum = numbers.reduce((total, n) => total + n, 0)
  const [tally] = cell.sql<{ entries: number; sum: number }>('SELECT entries, sum FROM tally').rows
  if (tally?.entries !== numbers.length || tally.sum !== sum) throw new Error('The tally does not agree')
  return numbers
}
