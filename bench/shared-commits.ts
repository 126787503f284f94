import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { Cell } from '../src/store/cell.ts'
import { CellStore } from '../src/store/cell-store.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * Durable puts: the library next to better-sqlite3's own FULL commits, one cell after the other. All are on disk at the end of
 * each round. One cell with both of the library's calls, while its log grows and once it overwrites itself; and 2 and 16
 * cells, where the commits of one turn share the commit log. Last, a hundred commits in flight in one cell next to a bare group commit:
 * one transaction for all that came in a turn of the event loop.
 */
const ROUNDS = 301
const WARM_UP = 50
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

function peer(): { database: Database.Database; put: Put } {
  const database = new Database(path.join(directory, `${files++}.db`))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID')
  const put = database.prepare('INSERT OR REPLACE INTO kv VALUES (?, ?)')
  return { database, put: (key, value) => put.run(key, value) }
}

/** A put that shares its transaction with all others of its turn of the event loop. */
function groupedPeer(): Put {
  const { database, put } = peer()
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

/** Median milliseconds that a put takes in one of so many cells, ours and theirs. */
async function measure(ours: Put[], theirs: Put[], rounds = ROUNDS): Promise<[ours: number, theirs: number]> {
  const took: [number[], number[]] = [[], []]
  for (let i = 0; i < rounds + WARM_UP; i++) {
    const value = String(round++)
    const key = `k${round % 100}`
    const started = performance.now()
    await Promise.all(ours.map((put) => put(key, value)))
    const between = performance.now()
    await Promise.all(theirs.map((put) => put(key, value)))
    const ended = performance.now()
    if (i < WARM_UP) continue
    took[0].push(between - started)
    took[1].push(ended - between)
  }
  return [median(took[0]) / ours.length, median(took[1]) / theirs.length]
}

function tell(what: string, [ours, theirs]: [number, number], aim: number, of = 'better-sqlite3 FULL'): void {
  report({
    what,
    ours: `${(ours * 1_000).toFixed(0)} µs a put`,
    theirs: `${(theirs * 1_000).toFixed(0)} µs, ${of}`,
    ratio: theirs / ours,
    aim: `≥ ${aim} ×`,
    met: theirs / ours >= aim,
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
const grouped = await measure(atOnce(CALLS['commit()']?.(store.createCell()) as Put), atOnce(groupedPeer()))
tell(`${IN_FLIGHT} commit() in flight in one cell`, grouped, 0.9, 'a bare group commit')
await store.close()
fs.rmSync(directory, { recursive: true, force: true })
