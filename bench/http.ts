import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { LoadResult } from './http-load.ts'
import { Client, cpuMs, type Served, startBaseline, startCellstore, storeVersions } from './http-process.ts'
import { HEAD, median, report, sideBySide } from './side-by-side.ts'

/**
 * GET and durable PUT of entries over HTTP, through the built `cellstore serve` with its key checked, next to a bare
 * node:http + better-sqlite3 server with the same group commit; with workers next to in-process; and a thousand cells next to one.
 * Then the limits of these: what such a bare server has left with its databases in processes of their own, with the least that the
 * contract asks of it, and with a thousand databases.
 */
const CONNECTIONS = 32
const KEYS = 1_000
const CELLS = 1_000
const ROUNDS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 5)
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_ROUND_MS'] ?? 2_000)
/** V8 compiles what runs often, and again what runs more often: in its first seconds a server gets faster by half. */
const WARM_UP_MS = 4 * ROUND_MS

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-http-'))
const client = new Client()
const running: Served[] = []

/** Someone who can be asked for entries, under paths of their own. */
interface Contender {
  server: Served
  paths: string[]
}
const limit = 'a limit'
const keys = Array.from({ length: KEYS }, (_, i) => `key:${i}`)

async function bare(): Promise<Contender> {
  const server = await startBaseline(path.join(directory, 'bare'))
  running.push(server)
  return { server, paths: keys.map((key) => `/${key}`) }
}

/** A bare server with workers: its entries in one database, and in a thousand. */
async function withWorkers(mode: 'bare' | 'contract'): Promise<{ one: Contender; many: Contender }> {
  const server = await startBaseline(path.join(directory, mode), {
    program: 'http-baseline-worker.ts',
    args: [mode],
  })
  running.push(server)
  const place = (database: number, key: string) =>
    mode === 'bare' ? `/${database}/${key}` : `/v1/databases/${database}/kv/${key}`
  const contenders = {
    one: { server, paths: keys.map((key) => place(0, key)) },
    many: { server, paths: Array.from({ length: CELLS }, (_, i) => place(i, 'key')) },
  }
  // Reads find entries.
  for (const each of Object.values(contenders)) await load('PUT', each, ROUND_MS)
  return contenders
}

async function cellstore(name: string, ...flags: string[]): Promise<Contender> {
  const server = await startCellstore(path.join(directory, name), flags)
  running.push(server)
  const cell = await createCell(server)
  return { server, paths: keys.map((key) => `${cell}/kv/${key}`) }
}

async function createCell({ port, key }: Served): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/databases`, {
    method: 'POST',
    headers: { 'x-api-key': key },
  })
  const { id } = (await response.json()) as { id: string }
  return `/v1/databases/${id}`
}

/** One key in each of many cells of a server. Each has a version already. */
async function manyCells({ server }: Contender): Promise<Contender> {
  const cells: string[] = []
  for (let i = 0; i < CELLS; i++) cells.push(await createCell(server))
  await storeVersions(
    server,
    cells.map((cell) => cell.split('/').at(-1) as string),
  )
  return { server, paths: cells.map((cell) => `${cell}/kv/key`) }
}

/** Processor time in µs a request, of each round: the measure that a busy machine disturbs least. */
let costs = new Map<Contender, number[]>()

async function rate(method: 'GET' | 'PUT', contender: Contender): Promise<number> {
  const before = cpuMs(contender.server.pid)
  const { count, rate } = await load(method, contender, ROUND_MS)
  const cost = ((cpuMs(contender.server.pid) - before) * 1_000) / count
  costs.set(contender, [...(costs.get(contender) ?? []), cost])
  return rate
}

function load(method: 'GET' | 'PUT', { server, paths }: Contender, durationMs: number): Promise<LoadResult> {
  const headers = server.key === '' ? '' : `x-api-key: ${server.key}\r\n`
  return client.run({ port: server.port, method, paths, headers, connections: CONNECTIONS, durationMs })
}

const warm = new Set<string>()

async function warmUp(method: 'GET' | 'PUT', { server, paths }: Contender): Promise<void> {
  const what = `${method} ${server.port} ${paths[0]}`
  if (warm.has(what)) return
  warm.add(what)
  await load(method, { server, paths }, WARM_UP_MS)
}

/** Two contenders, one row. */
async function compare(
  what: string,
  method: 'GET' | 'PUT',
  [ours, theirs]: [Contender, Contender],
  { aim, of }: { aim?: number; of: string },
): Promise<void> {
  for (const each of [ours, theirs]) await warmUp(method, each)
  costs = new Map()
  const rates = await sideBySide(ROUNDS, {
    theirs: () => rate(method, theirs),
    ours: () => rate(method, ours),
  })
  const shown = (name: 'ours' | 'theirs', contender: Contender) =>
    `${Math.round(rates[name]).toLocaleString('en')}/s (${median(costs.get(contender) ?? []).toFixed(0)} µs)`
  const ratio = rates.ours / rates.theirs
  report({
    what,
    ours: shown('ours', ours),
    theirs: shown('theirs', theirs),
    ratio,
    aim: aim === undefined ? of : `≥ ${aim} × ${of}`,
    met: aim === undefined ? undefined : ratio >= aim,
  })
}

/** Next to what a disk can do where each commit has an fsync of its own: better-sqlite3 alone, with no server around it. */
async function compareWithFsyncs(many: Contender): Promise<void> {
  const puts = Array.from({ length: CELLS }, (_, i) => fullPut(path.join(directory, `full-${i}.db`)))
  let count = 0
  const rates = await sideBySide(ROUNDS, {
    theirs: () => {
      const before = count
      const started = performance.now()
      while (performance.now() - started < ROUND_MS) puts[count % CELLS]?.(count++)
      return ((count - before) * 1_000) / (performance.now() - started)
    },
    ours: () => rate('PUT', many),
  })
  const shown = (rate: number) => `${Math.round(rate).toLocaleString('en')}/s`
  const ratio = rates.ours / rates.theirs
  report({
    what: `PUT, ${CELLS} cells in turn`,
    ours: shown(rates.ours),
    theirs: shown(rates.theirs),
    ratio,
    aim: `> 1 × one fsync a commit, better-sqlite3 without a server`,
    met: ratio > 1,
  })
}

function fullPut(file: string): (value: number) => void {
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.exec('CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID')
  const upsert = database.prepare('INSERT OR REPLACE INTO kv VALUES (?, ?)')
  return (value) => upsert.run('key', `${'v'.repeat(100)}${value}`)
}

try {
  const baseline = await bare()
  const served = await cellstore('served')
  for (const each of [baseline, served]) await load('PUT', each, ROUND_MS)
  console.log(`${CONNECTIONS} connections; in brackets the server's processor time a request\n\n${HEAD}`)
  await compare('HTTP GET', 'GET', [served, baseline], { aim: 0.8, of: 'bare node:http + better-sqlite3' })
  // Here, because V8 compiles the baseline's answers once more, for the worse, when it has answered puts for long.
  const contract = await withWorkers('contract')
  await compare('GET, the bare server with the contract', 'GET', [contract.one, baseline], { of: limit })
  await compare('HTTP PUT, durable', 'PUT', [served, baseline], { aim: 0.75, of: 'the same' })
  const inProcess = await cellstore('in-process', '--workers', '0')
  await load('PUT', inProcess, ROUND_MS)
  await compare('GET, with workers', 'GET', [served, inProcess], { aim: 0.9, of: 'in process' })
  await compare('PUT, with workers', 'PUT', [served, inProcess], { aim: 0.9, of: 'in process' })
  const many = await manyCells(served)
  await compare(`PUT, ${CELLS} cells in turn`, 'PUT', [many, served], { aim: 0.6, of: 'one cell' })

  await compareWithFsyncs(many)

  const divided = await withWorkers('bare')
  await compare('PUT, the bare server with workers', 'PUT', [divided.one, baseline], {
    aim: 0.7,
    of: 'without, and a limit',
  })
  await compare('PUT, ours next to that', 'PUT', [served, divided.one], { aim: 0.7, of: 'the bare server' })
  await compare('PUT, the bare server with the contract', 'PUT', [contract.one, baseline], { of: limit })
  await compare('PUT, ours next to that with the contract', 'PUT', [served, contract.one], { of: 'none' })
  for (const [name, { one, many }] of Object.entries({
    'without the contract': divided,
    'with it': contract,
  }))
    await compare(`PUT, ${CELLS} databases in turn, ${name}`, 'PUT', [many, one], { of: limit })
} finally {
  client.stop()
  for (const server of running) await server.stop()
  fs.rmSync(directory, { recursive: true, force: true })
}
