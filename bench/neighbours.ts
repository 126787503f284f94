/**
 * What a tenant does to its neighbours. One key holder sends statements that never end, or that take all memory and disk
 * there is, to several cells at once, as long as it is let; another reads and writes a cell of its own, a request every few
 * milliseconds as people do. Its 99th percentile beside that is compared with the one alone, in turns.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type Served, startCellstore } from './http-process.ts'
import { HEAD, median, report } from './side-by-side.ts'

const ROUNDS = 3
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_SECONDS'] ?? 10) * 1_000
const OFFENDERS = 4
const PAUSE_MS = 5
const WORKER_MEMORY_MIB = 512
/** The abuse's answer when a round is over. */
const GONE = { status: 0, code: 'hung up' }

const BOMBS = [
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 100000) SELECT count(*) FROM r a, r b, r c',
  'SELECT length(zeroblob(900000000) || zeroblob(900000000))',
  "SELECT length(printf('%*s', 900000000, 'x'))",
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 1000000) SELECT length(group_concat(hex(zeroblob(5000)))) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i, hex(randomblob(1000)) FROM r',
  'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 5000000) SELECT hex(randomblob(500)) AS x FROM r ORDER BY x',
  'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT randomblob(1000) FROM r',
]

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-neighbours-'))
const server = await startCellstore(directory, ['--worker-memory', String(WORKER_MEMORY_MIB)])
try {
  const neighbour = await newCell(server)
  const backoff: string[] = []
  for (let i = 0; i < OFFENDERS; i++) backoff.push(await newCell(server))
  for (const cell of backoff) await ask(server, `/${cell}/sql`, { sql: 'CREATE TABLE t (x)' })
  await measure(server, neighbour, 1_000)
  const alone: number[] = []
  const beside: number[] = []
  const answers = new Map<string, number>()
  let largestRss = 0
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(await measure(server, neighbour, ROUND_MS))
    const stop = new AbortController()
    const watch = setInterval(() => {
      largestRss = Math.max(largestRss, ...workersOf(server).map(residentMib))
    }, 50)
    const abuse = backoff.map((cell, i) => offend(server, cell, i, stop.signal, answers))
    beside.push(await measure(server, neighbour, ROUND_MS))
    stop.abort()
    await Promise.all(abuse)
    clearInterval(watch)
  }
  const ratio = median(alone) / median(beside)
  console.log(`${OFFENDERS} cells under abuse, ${ROUNDS} rounds of ${ROUND_MS / 1_000} s\n\n${HEAD}`)
  report({
    what: "a neighbour's 99th percentile beside abuse",
    ours: `${median(beside).toFixed(2)} ms`,
    theirs: `${median(alone).toFixed(2)} ms`,
    ratio,
    aim: '≥ 0.5 × alone',
    met: ratio >= 0.5,
  })
  report({
    what: 'largest memory of a worker',
    ours: `${Math.round(largestRss)} MiB`,
    theirs: `${WORKER_MEMORY_MIB} MiB`,
    ratio: WORKER_MEMORY_MIB / largestRss,
    aim: '≤ --worker-memory',
    met: largestRss <= WORKER_MEMORY_MIB,
  })
  console.log(`\nThe abuse was answered: ${JSON.stringify(Object.fromEntries([...answers].sort()))}`)
} finally {
  await server.stop()
  fs.rmSync(directory, { recursive: true, force: true })
}

/** @returns the 99th percentile in milliseconds; throws if any request fails */
async function measure(served: Served, cell: string, durationMs: number): Promise<number> {
  const times: number[] = []
  const until = performance.now() + durationMs
  for (let i = 0; performance.now() < until; i++) {
    const started = performance.now()
    const { status } =
      i % 4 === 0
        ? await ask(served, `/${cell}/kv/k`, { value: `v${i}` }, 'PUT')
        : await ask(served, `/${cell}/kv/k`, undefined, 'GET')
    times.push(performance.now() - started)
    if (status !== 200) throw new Error(`The neighbour was answered ${status}.`)
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  times.sort((a, b) => a - b)
  return times[Math.floor(times.length * 0.99)] ?? Number.NaN
}

async function offend(
  served: Served,
  cell: string,
  first: number,
  signal: AbortSignal,
  answers: Map<string, number>,
): Promise<void> {
  for (let i = first; !signal.aborted; i++) {
    const sql = BOMBS[i % BOMBS.length] as string
    const { status, code } = await ask(served, `/${cell}/sql`, { sql }, 'POST', signal).catch(() => GONE)
    const answer = `${status} ${code}`
    answers.set(answer, (answers.get(answer) ?? 0) + 1)
    if (status === 429) await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function ask(
  { port, key }: Served,
  resource: string,
  body: unknown,
  method = 'POST',
  signal?: AbortSignal,
): Promise<{ status: number; code: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/databases${resource}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  })
  const answer = (await response.json()) as { code?: string }
  return { status: response.status, code: answer.code ?? 'ok' }
}

async function newCell({ port, key }: Served): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/databases`, {
    method: 'POST',
    headers: { 'x-api-key': key },
  })
  return ((await response.json()) as { id: string }).id
}

function workersOf({ pid }: Served): number[] {
  return fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

function residentMib(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024
  } catch {
    return 0
  }
}
