import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { CellStore } from '../src/store/cell-store.ts'
import { reportTimes, sideBySide } from './side-by-side.ts'

/** A prepared statement of a cell next to one of better-sqlite3, on a table of the same shape with the same durability. */
const ROWS = 5_000
const GETS = 50_000
const RUNS = 10_000
const ROUNDS = 11

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-sql-'))
const store = await CellStore.create(path.join(directory, 'data'), { durability: 'relaxed' })
const cell = store.createCell()
const bare = new Database(path.join(directory, 'bare.db'))
bare.pragma('journal_mode = WAL')
bare.pragma('synchronous = NORMAL')

const TABLE = 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, city TEXT)'
const INSERT = 'INSERT INTO users VALUES (?, ?, ?, ?)'
const GET = 'SELECT id, name, age, city FROM users WHERE id = ?'
const RUN = 'UPDATE users SET age = ? WHERE id = ?'
cell.exec(TABLE)
bare.exec(TABLE)
const [ourInsert, bareInsert] = [cell.prepare(INSERT), bare.prepare(INSERT)]
const rowsToInsert = Array.from({ length: ROWS }, (_, i) => [i, `name ${i}`, i % 90, `city ${i % 10}`])
cell.transaction(() => {
  for (const row of rowsToInsert) ourInsert.run(row)
})
bare.transaction(() => {
  for (const row of rowsToInsert) bareInsert.run(row)
})()
const [ourGet, bareGet] = [cell.prepare(GET), bare.prepare(GET)]
const [ourRun, bareRun] = [cell.prepare(RUN), bare.prepare(RUN)]
/** SQLite writes nothing where a row stays as it was. */
let age = 0

function microseconds(count: number, run: (id: number) => void): number {
  const started = performance.now()
  for (let i = 0; i < count; i++) run((i * 7_919) % ROWS)
  return ((performance.now() - started) * 1_000) / count
}

const rows = {
  'cell.prepare().get': await sideBySide(ROUNDS, {
    ours: () => microseconds(GETS, (id) => ourGet.get(id)),
    bare: () => microseconds(GETS, (id) => bareGet.get(id)),
  }),
  'cell.get': await sideBySide(ROUNDS, {
    ours: () => microseconds(GETS, (id) => cell.get(GET, [id])),
    bare: () => microseconds(GETS, (id) => bareGet.get(id)),
  }),
  'cell.prepare().run, relaxed': await sideBySide(ROUNDS, {
    ours: () => microseconds(RUNS, (id) => ourRun.run(++age, id)),
    bare: () => microseconds(RUNS, (id) => bareRun.run(++age, id)),
  }),
}

reportTimes({
  'cell.prepare().get': { ...rows['cell.prepare().get'], ratioMin: 1.5 },
  'cell.get': { ...rows['cell.get'], ratioMin: 1.5 },
  'cell.prepare().run, relaxed': { ...rows['cell.prepare().run, relaxed'], ratioMin: 0.7 },
})
bare.close()
await store.close()
fs.rmSync(directory, { recursive: true, force: true })
