import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SELECT, TABLE } from './peers/library/library-peer.ts'
import { readProfiles, type Span, timesOf } from './profiles.ts'

/**
 * Where the processor time of a request goes: the built `cellstore serve` and its children under V8's profiler, one kind of work after the
 * other, and a table of functions for each. A sample counts for the innermost function of ours that runs, with all that it calls of Node.js
 * and SQLite; where none of ours runs, for Node.js. Fsyncs and compression run in the thread pool, which V8 does not see.
 *
 * Its arguments are kinds of work; without any, all of them. `CELLSTORE_BENCH_ROUND_MS` (4,000), `CELLSTORE_BENCH_MB` (50), `CELLSTORE_BENCH_CELLS` (300) and
 * `CELLSTORE_BENCH_ROWS` (16) set its length.
 */
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_ROUND_MS'] ?? 4_000)
const MB = Number(process.env['CELLSTORE_BENCH_MB'] ?? 50)
const INTERVAL_US = 200
const ROWS_MAX = Number(process.env['CELLSTORE_BENCH_ROWS'] ?? 16)
const CONNECTIONS = 32
/** Of a node that is not busy. */
const PER_SECOND = 4_000
const KEYS = 1_000
const CELLS = Number(process.env['CELLSTORE_BENCH_CELLS'] ?? 300)
const REPEATS = 5
/** New cells get their first versions within the lag: other work is profiled after that. */
const VERSIONS_MS = 15_000

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-profile-'))
const profiles = path.join(directory, 'profiles')
// Only for the node and its children: this module reads their environment once.
process.env['NODE_OPTIONS'] = `--cpu-prof --cpu-prof-interval=${INTERVAL_US} --cpu-prof-dir=${profiles}`
const { Client, startCellstore } = await import('./http-process.ts')
delete process.env['NODE_OPTIONS']

const client = new Client()
const server = await startCellstore(directory, [])
const { port, key } = server

async function ask(method: string, place: string, body: unknown = {}): Promise<{ id?: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/databases${place}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${place} answered ${response.status}: ${text}`)
  return JSON.parse(text) as { id?: string }
}

async function load(
  method: 'GET' | 'PUT' | 'POST',
  paths: string[],
  how: { body?: string; perSecond?: number } = {},
): Promise<number> {
  const each = { port, method, paths, headers: `x-api-key: ${key}\r\n`, connections: CONNECTIONS }
  const { count } = await client.run({ ...each, durationMs: ROUND_MS, ...how })
  return count
}

/** Does the work several times. */
async function repeat(times: number, work: () => Promise<unknown>): Promise<number> {
  for (let i = 0; i < times; i++) await work()
  return times
}

const createCell = async () => (await ask('POST', '')).id as string
const sql = (cell: string, text: string) => ask('POST', `/${cell}/sql`, { sql: text })
const rows = (count: number, of: string) =>
  `WITH RECURSIVE ids(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id < ${count - 1}) SELECT ${of} FROM ids`

const cell = await createCell()
await sql(cell, TABLE)
await sql(cell, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)')
await sql(cell, `INSERT INTO users ${rows(KEYS, "id, 'name ' || id, id % 90, 'city ' || (id % 10)")}`)
const entries = Array.from({ length: KEYS }, (_, i) => `/v1/databases/${cell}/kv/key:${i}`)
const statements = [`/v1/databases/${cell}/sql`]
let large = ''

async function largeCell(): Promise<void> {
  if (large !== '') return
  large = await createCell()
  await sql(large, 'CREATE TABLE pages (id INTEGER PRIMARY KEY, page BLOB)')
  for (let mb = 0; mb < MB; mb++)
    await sql(large, `INSERT INTO pages (page) ${rows(256, 'randomblob(4000)')}`)
}

/** Each work, which says how often it was done, and what comes before it. */
interface Work {
  before?: () => Promise<unknown>
  run: () => Promise<number>
}

const insert = JSON.stringify({ sql: 'INSERT INTO notes (note) VALUES (?)', params: [`${'v'.repeat(92)}$n`] })
const select = JSON.stringify({ sql: SELECT, params: ['$k'] }).replace('"$k"', '$k')
const warmed = (run: () => Promise<number>): Work => ({ before: run, run })
const firstVersions = () => sleep(VERSIONS_MS)

const WORKS: Record<string, Work> = {
  PUT: warmed(() => load('PUT', entries)),
  GET: warmed(() => load('GET', entries)),
  'GET, paced': warmed(() => load('GET', entries, { perSecond: PER_SECOND })),
  SELECT: warmed(() => load('POST', statements, { body: select })),
  INSERT: warmed(() => load('POST', statements, { body: insert })),
  creation: warmed(() => repeat(CELLS, createCell)),
  'first version': {
    before: () => firstVersions().then(() => repeat(CELLS, createCell)),
    run: () => firstVersions().then(() => CELLS),
  },
  'first PUT': warmed(() =>
    repeat(CELLS, async () => ask('PUT', `/${await createCell()}/kv/key`, { value: '1' })),
  ),
  snapshot: {
    before: () => firstVersions().then(largeCell),
    run: () =>
      repeat(REPEATS, async () => {
        await sql(large, 'UPDATE pages SET page = randomblob(4000) WHERE id = 1')
        await ask('POST', `/${large}/backup`)
      }),
  },
  restore: { before: largeCell, run: () => repeat(REPEATS, () => ask('POST', `/${large}/restore`)) },
}

const asked = process.argv.slice(2)
const done: { what: string; count: number; span: Span }[] = []
const now = () => Number(process.hrtime.bigint() / 1_000n)
try {
  await load('PUT', entries)
  for (const [what, { before, run }] of Object.entries(WORKS)) {
    if (asked.length > 0 && !asked.includes(what)) continue
    await before?.()
    const from = now()
    done.push({ what, count: await run(), span: { from, until: now() } })
  }
} finally {
  client.stop()
  await server.stop()
}

const all = readProfiles(profiles)
for (const { what, count, span } of done) {
  const times = timesOf(all, span)
  const perRequest = (microseconds: number) => {
    const each = microseconds / count
    return each < 1_000 ? `${each.toFixed(1)} µs` : `${(each / 1_000).toFixed(1)} ms`
  }
  const total = times.reduce((sum, { microseconds }) => sum + microseconds, 0)
  console.log(`\n${what}: ${count} times, ${perRequest(total)} of processor time each\n`)
  console.log('| Process | Function | Time | Share |\n|---|---|---|---|')
  for (const { role, label, microseconds } of times.slice(0, ROWS_MAX)) {
    const share = `${((microseconds / total) * 100).toFixed(1)} %`
    console.log(`| ${role} | ${label} | ${perRequest(microseconds)} | ${share} |`)
  }
}
fs.rmSync(directory, { recursive: true, force: true })
