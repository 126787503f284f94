import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import Database from 'better-sqlite3'
import { StorePaths } from '../src/base/files/store-paths.ts'
import { BenchNode, peakMemoryMib } from './capacity/bench-node.ts'
import { SteadyWriter } from './capacity/steady-writer.ts'

/**
 * One large cell that is written all the time: its base, an incremental, and its restore into another directory. The object
 * store is a folder. Each row says what the writer noticed.
 */
const GB = Number(process.env['CELLSTORE_BENCH_GB'] ?? 1)
const WRITES_PER_SECOND = Number(process.env['CELLSTORE_BENCH_WRITES'] ?? 650)
const QUIET_MS = 5_000
const WATCH_MS = 200
const MB = 1_000_000
const state = {
  op: 'sql',
  sql: `SELECT (SELECT count(*) FROM log) AS entries, (SELECT sum(n) FROM log) AS sum, (SELECT entries FROM tally) AS tally,
    (SELECT count(*) FROM blobs) AS blobs, (SELECT sum(length(b) + unicode(hex(substr(b, 1, 4)))) FROM blobs) AS checksum`,
} as const

const directory = fs.mkdtempSync(
  path.join(process.env['CELLSTORE_BENCH_DIR'] ?? os.tmpdir(), 'cellstore-bench-large-'),
)
const data = path.join(directory, 'data')
const objectStore = pathToFileURL(path.join(directory, 'objects')).href
const start = (dir: string) =>
  BenchNode.start({ directory: dir, objectStore, cellBytesMax: 4 * GB * 1_000 * MB })
try {
  const id = await build()
  const database = new StorePaths(data).cell(id).database
  const bytes = fs.statSync(database).size
  console.log(
    `a cell of ${(bytes / 1e9).toFixed(2)} GB, ${WRITES_PER_SECOND} durable writes per second; load ${load()}\n`,
  )
  console.log(
    '| what | time | MB/s | writer: per second, median, p99, longest | spool | kept logs | load |\n|---|---|---|---|---|---|---|',
  )
  const expected = await backUp(id, bytes)
  await restore(id, bytes, expected)
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}

/** Writes the database directly: the engine would write all of it twice. */
async function build(): Promise<string> {
  const node = await start(data)
  const { id } = node.core.createCell()
  for (const sql of ['CREATE TABLE blobs (b BLOB)', ...SteadyWriter.schema])
    await node.service.execute(id, { op: 'sql', sql })
  await node.close()
  const database = new Database(new StorePaths(data).cell(id).database)
  for (const pragma of ['journal_mode = DELETE', 'journal_mode = OFF', 'synchronous = OFF'])
    database.pragma(pragma)
  const insert = database.prepare(
    'INSERT INTO blobs VALUES (CAST(randomblob(500000) || zeroblob(500000) AS BLOB))',
  )
  database.transaction(() => {
    for (let blob = 0; blob < GB * 1_000; blob++) insert.run()
  })()
  database.pragma('journal_mode = WAL')
  database.close()
  return id
}

async function backUp(id: string, bytes: number): Promise<string> {
  const node = await start(data)
  const writer = new SteadyWriter(node, id, WRITES_PER_SECOND)
  await measured(writer, 'nothing else', 0, () => new Promise((resolve) => setTimeout(resolve, QUIET_MS)))
  await measured(writer, 'base', bytes, () => node.service.backups.snapshot(id))
  await measured(writer, 'incremental', 0, () => node.service.backups.incremental(id))
  await writer.stop()
  await measured(writer, 'incremental, without writes', 0, () => node.service.backups.incremental(id))
  const expected = JSON.stringify((await node.service.execute(id, state)).rows)
  const workers = node.workers.map(peakMemoryMib).join(' and ')
  console.log(
    `\n${writer.failed} writes failed. Peak memory: archiver ${peakMemoryMib(node.archiver)} MiB, workers ${workers} MiB, node ${peakMemoryMib(process.pid)} MiB. ${node.lostWorkers()} workers ended.\n`,
  )
  await node.close()
  return expected
}

/** As after a total loss, on another machine. */
async function restore(id: string, bytes: number, expected: string): Promise<void> {
  const node = await start(path.join(directory, 'restored'))
  const started = performance.now()
  const { rows } = await node.service.execute(id, state)
  const seconds = (performance.now() - started) / 1_000
  const isSame = JSON.stringify(rows) === expected
  const speed = (bytes / MB / seconds).toFixed(0)
  console.log(
    `restored and read in ${seconds.toFixed(1)} s, ${speed} MB/s; archiver ${peakMemoryMib(node.archiver)} MiB; ${isSame ? 'the same rows, sums and tally' : `DIFFERENT: ${JSON.stringify(rows)}, expected ${expected}`}; load ${load()}`,
  )
  process.exitCode = isSame ? 0 : 1
  await node.close()
}

async function measured(
  writer: SteadyWriter,
  what: string,
  bytes: number,
  work: () => Promise<unknown>,
): Promise<void> {
  writer.figures()
  const most = { spool: 0, logs: 0 }
  const watch = setInterval(() => {
    most.spool = Math.max(most.spool, bytesBelow(data, /spool/))
    most.logs = Math.max(most.logs, bytesBelow(path.join(data, 'cells'), /wal|segments/))
  }, WATCH_MS)
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1_000
  clearInterval(watch)
  const { perSecond, medianMs, p99Ms, longestMs } = writer.figures()
  const writes = `${perSecond.toFixed(0)}, ${medianMs.toFixed(1)} ms, ${p99Ms.toFixed(0)} ms, ${longestMs.toFixed(0)} ms`
  const speed = bytes === 0 ? '–' : (bytes / MB / seconds).toFixed(0)
  console.log(
    `| ${what} | ${seconds.toFixed(1)} s | ${speed} | ${writes} | ${(most.spool / MB).toFixed(0)} MB | ${(most.logs / MB).toFixed(0)} MB | ${load()} |`,
  )
}

function bytesBelow(folder: string, matching: RegExp): number {
  let sum = 0
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isFile() && matching.test(path.relative(folder, file)))
      sum += fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0
  }
  return sum
}

function load(): string {
  return (os.loadavg()[0] as number).toFixed(1)
}
