import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { CellStore } from '../src/store/cell-store.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * Durable puts into 1, 2 and 16 cells: the library, where the commits of one turn share the commit log, next to
 * better-sqlite3's own FULL commits, one cell after the other. Both are on disk at the end of each round.
 */
const ROUNDS = 301
const WARM_UP = 50
const AIMS = [
  [1, 0.9],
  [2, 1.4],
  [16, 4],
] as const

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-shared-'))
const store = await CellStore.create(path.join(directory, 'data'))
console.log(HEAD)
for (const [count, aim] of AIMS) {
  const cells = Array.from({ length: count }, () => store.createCell())
  const peers = Array.from({ length: count }, (_, i) => openPeer(path.join(directory, `${count}-${i}.db`)))
  const took = { ours: [] as number[], theirs: [] as number[] }
  for (let round = 0; round < ROUNDS + WARM_UP; round++) {
    const value = String(round)
    const started = performance.now()
    await Promise.all(cells.map((cell) => cell.commit(() => cell.kv.put(`k${round % 100}`, value))))
    const between = performance.now()
    for (const put of peers) put.run(`k${round % 100}`, value)
    const ended = performance.now()
    if (round < WARM_UP) continue
    took.ours.push(between - started)
    took.theirs.push(ended - between)
  }
  const [ours, theirs] = [median(took.ours) / count, median(took.theirs) / count]
  report({
    what: `a durable put in each of ${count} cells`,
    ours: `${(ours * 1_000).toFixed(0)} µs a put`,
    theirs: `${(theirs * 1_000).toFixed(0)} µs, better-sqlite3 FULL`,
    ratio: theirs / ours,
    aim: `≥ ${aim} ×`,
    met: theirs / ours >= aim,
  })
}
await store.close()
fs.rmSync(directory, { recursive: true, force: true })

function openPeer(file: string) {
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID')
  return database.prepare('INSERT OR REPLACE INTO kv VALUES (?, ?)')
}
