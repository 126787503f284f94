import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { CellStore } from '../src/store/cell-store.ts'
import type { Cell } from '../src/store/open/cell.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * Durable puts: the library next to better-sqlite3's own FULL commits, one cell after the other. All are on disk at the end of
 * each round. One cell with both of the library's calls, while its log grows and once it overwrites itself; and 2 and 16
 * cells, where the commits of one turn share the commit log. Last, a hundred commits in flight in one cell next to a bare group commit:
 * one transaction for all that came in a turn of the event loop. Once with rows of a key and a value, and once with rows that also
 * have what every entry of a cell has: a version, and a time of expiry with its index. These two are also measured next to each other: no
 * program that stores such rows can do better.
 */
const ROUNDS = 300
const WARM_UP = 50
const ROUNDS_OF_A_TURN = 25
/** More than the 4 MiB after which both libraries move a log into its database. */
const ROUNDS_OF_A_LOG = 1_200
const IN_FLIGHT = 100

type Put = (key: string, value: string) => unknown
const CALLS: Record<string, (cell: Cell) => Put> = {
  'kv.put()': (cell) => (key, value) => cell.kv.put(key, value),
  'commit()': (cell) => (key, value) => cell.commit(() => cell.kv.put(key, value)),
}

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-shared-'))
const store = await CellStore.create(path.join(directory, 'data'))
let files = 0

function openPeer(): Put {
  return peer().put
}

const KEYS_AND_VALUES = {
  table: 'CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID',
  put: 'INSERT OR REPLACE INTO kv VALUES (?, ?)',
}
const ENTRIES = {
  table: `CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER, version INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX expiry ON kv (expires_at) WHERE expires_at IS NOT NULL`,
  // As long as a cell's own, which begin anywhere in 62 bits.
  put: `INSERT INTO kv VALUES (?, ?, NULL, 3141592653589793238)
    ON CONFLICT DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at, version = version + 1`,
}

function peer({ table, put: sql } = KEYS_AND_VALUES): { database: Database.Database; put: Put } {
  const database = new Database(path.join(directory, `${files++}.db`))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec(table)
  const put = database.prepare(sql)
  return { database, put: (key, value) => put.run(key, value) }
}

/** A put that shares its transaction with all others of its turn of the event loop. */
function groupedPeer(rows = KEYS_AND_VALUES): Put {
  const { database, put } = peer(rows)
  let group: { key: string; value: string; done: () => void }[] = []
  const commit = database.transaction((puts: typeof group) => {
    for (const { key, value } of puts) put(key, value)
  })
  const commitGroup = () => {
    const puts = group
    group = []
    commit(puts)
    for (const { done } of puts) done()
  }
  return (key, value) =>
    new Promise<void>((done) => {
      if (group.push({ key, value, done }) === 1) setImmediate(commitGroup)
    })
}

/** So many puts at a time, each of a key of its own. */
function atOnce(put: Put): Put[] {
  return Array.from({ length: IN_FLIGHT }, (_, i) => (key, value) => put(`${key}.${i}`, value))
}

let round = 0

/**
 * Median milliseconds that a put takes in one of so many cells, ours and theirs, which take turns of some rounds: so each writes as a
 * program does that uses it, and not to a disk and a processor that the other has just left.
 */
async function measure(ours: Put[], theirs: Put[], rounds = ROUNDS): Promise<[ours: number, theirs: number]> {
  const took: [number[], number[]] = [[], []]
  for (let done = 0; done < rounds + WARM_UP; done += ROUNDS_OF_A_TURN) {
    for (const [i, puts] of [ours, theirs].entries()) {
      const times = await turn(puts)
      if (done >= WARM_UP) took[i]?.push(...times)
    }
  }
  return [median(took[0]) / ours.length, median(took[1]) / theirs.length]
}

/** @returns the milliseconds of each round */
async function turn(puts: Put[]): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < ROUNDS_OF_A_TURN; i++) {
    const value = String(round++)
    const key = `k${round % 100}`
    const started = performance.now()
    await Promise.all(puts.map((put) => put(key, value)))
    times.push(performance.now() - started)
  }
  return times
}

/** @param aim undefined: a limit, of which a bare program is in our place */
function tell(
  what: string,
  [ours, theirs]: [number, number],
  aim: number | undefined,
  of = 'better-sqlite3 FULL',
): void {
  report({
    what,
    ours: `${(ours * 1_000).toFixed(0)} µs a put`,
    theirs: `${(theirs * 1_000).toFixed(0)} µs, ${of}`,
    ratio: theirs / ours,
    aim: aim === undefined ? 'a limit' : `≥ ${aim} ×`,
    met: aim === undefined ? undefined : theirs / ours >= aim,
  })
}

console.log(HEAD)
for (const [name, call] of Object.entries(CALLS)) {
  const ours = [call(store.createCell())]
  const theirs = [openPeer()]
  tell(`${name} in one cell, new`, await measure(ours, theirs), 0.9)
  await measure(ours, theirs, ROUNDS_OF_A_LOG)
  tell(`${name} in one cell, its log overwrites itself`, await measure(ours, theirs), 0.9)
}
for (const [count, aim] of [
  [2, 1.4],
  [16, 4],
] as const) {
  const ours = Array.from({ length: count }, () => CALLS['commit()']?.(store.createCell()) as Put)
  const theirs = Array.from({ length: count }, openPeer)
  tell(`commit() in each of ${count} cells`, await measure(ours, theirs, ROUNDS_OF_A_LOG), aim)
}
const inFlight = `${IN_FLIGHT} commit() in flight in one cell`
const grouped = atOnce(CALLS['commit()']?.(store.createCell()) as Put)
const keysAndValues = atOnce(groupedPeer())
tell(`${inFlight}, new`, await measure(grouped, keysAndValues), 0.9, 'a bare group commit')
await measure(grouped, keysAndValues, ROUNDS_OF_A_LOG)
tell(
  `${inFlight}, its log overwrites itself`,
  await measure(grouped, keysAndValues),
  0.9,
  'a bare group commit',
)
const entries = atOnce(groupedPeer(ENTRIES))
await measure(grouped, entries, ROUNDS_OF_A_LOG)
tell(
  `${inFlight}, next to the same rows`,
  await measure(grouped, entries),
  0.9,
  'a bare group commit of rows with versions and expiry',
)
tell(
  'the bare group commit of such rows',
  await measure(entries, keysAndValues),
  undefined,
  'a bare group commit',
)
await store.close()
fs.rmSync(directory, { recursive: true, force: true })
