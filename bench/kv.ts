import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { CellStore } from '../src/store/cell-store.ts'
import { reportTimes, sideBySide } from './side-by-side.ts'

/**
 * `kv.get` and `kv.put` through the library, next to bare better-sqlite3 with one prepared statement that tests expiry
 * in the same way, on a table of the same shape, with the same durability.
 */
const KEYS = 5_000
const GETS = 100_000
const PUTS = 10_000
const ROUNDS = 11

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-kv-'))
const store = await CellStore.create(path.join(directory, 'data'), { durability: 'relaxed' })
const { kv } = store.createCell()
const bare = new Database(path.join(directory, 'bare.db'))
bare.pragma('journal_mode = WAL')
bare.pragma('synchronous = NORMAL')
bare.exec(
  'CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT, WITHOUT ROWID',
)
const bareGet = bare
  .prepare('SELECT value FROM kv WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)')
  .pluck()
const barePut = bare.prepare(
  'INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at',
)

const keys = Array.from({ length: KEYS }, (_, i) => `key:${i}`)
const value = 'v'.repeat(100)
/** SQLite writes nothing where a row stays as it was, so that every put is of another value. */
let puts = 0
for (const key of keys) {
  kv.put(key, value)
  barePut.run(key, value, null)
}

function microseconds(count: number, run: (key: string) => void): number {
  const started = performance.now()
  for (let i = 0; i < count; i++) run(keys[(i * 7_919) % KEYS] as string)
  return ((performance.now() - started) * 1_000) / count
}

async function microsecondsApart(run: (key: string) => void): Promise<number> {
  const started = performance.now()
  for (let i = 0; i < GETS; i++) {
    run(keys[(i * 7_919) % KEYS] as string)
    await null
  }
  return ((performance.now() - started) * 1_000) / GETS
}

const get = await sideBySide(ROUNDS, {
  ours: () => microseconds(GETS, (key) => kv.get(key)),
  bare: () => microseconds(GETS, (key) => bareGet.get(key, Date.now())),
})
/** Between two awaits there is one read, which shares nothing. */
const getApart = await sideBySide(ROUNDS, {
  ours: () => microsecondsApart((key) => kv.get(key)),
  bare: () => microsecondsApart((key) => bareGet.get(key, Date.now())),
})
const put = await sideBySide(ROUNDS, {
  ours: () => microseconds(PUTS, (key) => kv.put(key, `${value}${++puts}`)),
  bare: () => microseconds(PUTS, (key) => barePut.run(key, `${value}${++puts}`, null)),
})

reportTimes({
  'kv.get': { ...get, ratioMin: 1.5 },
  'kv.get, one a run': { ...getApart, ratioMin: 0.8 },
  'kv.put, relaxed': { ...put, ratioMin: 0.8 },
})
bare.close()
await store.close()
fs.rmSync(directory, { recursive: true, force: true })
