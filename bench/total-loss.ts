import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import Database from 'better-sqlite3'
import { decompressSeekable } from '../src/backup/archive/zstd/seekable-zstd.ts'
import { StorePaths } from '../src/base/files/store-paths.ts'
import { writeAll } from '../src/base/files/write-all.ts'
import { readOwner } from '../src/catalog/directory-lock.ts'
import { peakMemoryMib } from './capacity/bench-node.ts'
import type { LibraryRestores } from './capacity/library-restores.ts'
import { type Served, startCellstore, storeVersions } from './http-process.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * All cells of a node are lost, and all are requested at once: over HTTP from `cellstore serve`, and from the library, both as
 * built. Next to them: the same objects read, decompressed, written and synced, as many at a time; and a program that also proves them.
 */
const CELLS = Number(process.env['CELLSTORE_BENCH_LOST'] ?? 200)
const LIBRARY_CELLS = Number(process.env['CELLSTORE_BENCH_LOST_LIBRARY'] ?? 300)
const MEGABYTES = 6
const AT_ONCE = 4
const ROUNDS = 3
const MIB = 1_048_576

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-loss-'))
const objects = path.join(directory, 'objects')
const data = path.join(directory, 'data')
const log = path.join(directory, 'log')
let setAsides = 0
const objectStore = pathToFileURL(objects).href
try {
  const { ids, key } = await store(Math.max(CELLS, LIBRARY_CELLS))
  console.log(`load ${os.loadavg()[0]?.toFixed(1)}\n${HEAD}`)
  await node({ ids: ids.slice(0, CELLS), key })
  await library(ids.slice(0, LIBRARY_CELLS))
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}

/** Makes the cells and their backups. */
async function store(count: number): Promise<Stored> {
  const server = await start()
  const { key } = server
  const ids: string[] = []
  try {
    for (let i = 0; i < count; i++) {
      const { id } = await post<{ id: string }>({ ...server, key }, '/v1/databases')
      ids.push(id)
      await post({ ...server, key }, `/v1/databases/${id}/sql`, { sql: 'CREATE TABLE t (b)' })
      for (let part = 0; part < MEGABYTES; part++)
        await post({ ...server, key }, `/v1/databases/${id}/sql`, {
          sql: 'INSERT INTO t VALUES (randomblob(1000000))',
        })
    }
    await storeVersions(server, ids)
  } finally {
    await server.stop()
  }
  return { ids, key }
}

/** The command that users run, with two workers. No backup is made that the benchmark did not ask for. */
function start(): Promise<Served> {
  const flags = `--object-store ${objectStore} --workers 2 --snapshot-every never --incremental-every never --drill-every never`
  return startCellstore(directory, flags.split(' '), log)
}

/** @throws for an answer that is not 2xx */
async function post<T>({ port, key }: Pick<Served, 'port' | 'key'>, url: string, body?: object): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${port}${url}`, {
    method: 'POST',
    headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as T
}

/** Sets aside what is lost. */
function lose(): void {
  const { cells, localState } = new StorePaths(data)
  // With local.db, a start would take the disk of the cells for not mounted.
  for (const lost of [cells, localState]) setAside(lost)
}

/** The files stay, empty: for a minute after a mass deletion, ext4 makes new files slowly. */
function setAside(lost: string): void {
  const aside = path.join(directory, `aside-${++setAsides}`)
  fs.renameSync(lost, aside)
  const files = fs.statSync(aside).isFile()
    ? []
    : fs.readdirSync(aside, { recursive: true, withFileTypes: true })
  for (const file of files) if (file.isFile()) fs.truncateSync(path.join(file.parentPath, file.name))
}

/**
 * Waits until a virtual machine has given its free memory back. To write into it then costs three times as much as right after
 * it was freed, so whoever came second had an easy time.
 */
function untilMemoryIsCold(): Promise<void> {
  return setTimeout(10_000)
}

interface Stored {
  ids: readonly string[]
  /** The account's. */
  key: string
}

interface NodeRestores {
  /** Seconds until the first answer, and until all. */
  first: number
  all: number
  /** MiB, of the archiver. */
  peak: number
  /** Workers that ended, in this round and before. */
  lost: number
}

async function node(stored: Stored): Promise<void> {
  const { ids } = stored
  const rounds: (NodeRestores & { baseline: number; proven: number })[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const restores = await restoreOnNode(stored)
    const baseline = await fetchAndWrite(ids)
    rounds.push({ ...restores, baseline, proven: baseline + prove(ids) })
  }
  const { first, all, baseline, proven } = medians(rounds)
  const peak = Math.max(...rounds.map((round) => round.peak))
  const lost = rounds.at(-1)?.lost ?? 0
  row(
    `${ids.length} lost cells of ${MEGABYTES} MB, requested at once: the first answer`,
    `${first.toFixed(2)} s`,
    '–',
    2 / first,
    '≤ 2 s',
    first <= 2,
  )
  row(
    'all of them',
    `${all.toFixed(1)} s`,
    `${baseline.toFixed(1)} s`,
    baseline / all,
    '≥ 0.67 × read; decompress; write; fsync',
    all <= 1.5 * baseline,
  )
  row(
    'the same, next to a program that proves the bytes too',
    `${all.toFixed(1)} s`,
    `${proven.toFixed(1)} s`,
    proven / all,
    '≥ 0.67 × that; SHA-256; quick_check',
    all <= 1.5 * proven,
  )
  row('memory of the archiver', `${peak} MiB`, '–', 300 / peak, '< 300 MB', peak * MIB < 300_000_000)
  row('workers that ended', String(lost), '–', lost === 0 ? 1 : 0, '0', lost === 0)
}

function medians(rounds: readonly Record<'first' | 'all' | 'baseline' | 'proven', number>[]) {
  const of = (name: keyof (typeof rounds)[number]) => median(rounds.map((round) => round[name]))
  return { first: of('first'), all: of('all'), baseline: of('baseline'), proven: of('proven') }
}

async function restoreOnNode({ ids, key }: Stored): Promise<NodeRestores> {
  lose()
  await untilMemoryIsCold()
  const { port, stop } = await start()
  const started = performance.now()
  const seconds = () => (performance.now() - started) / 1_000
  let first = 0
  const sum = { sql: 'SELECT sum(length(b)) AS bytes FROM t' }
  await Promise.all(
    ids.map(async (id) => {
      const { rows } = await post<{ rows: [{ bytes: number }] }>(
        { port, key },
        `/v1/databases/${id}/sql`,
        sum,
      )
      first ||= seconds()
      if (rows[0].bytes !== MEGABYTES * 1_000_000) throw new Error('A restored cell is not whole.')
    }),
  )
  const all = seconds()
  const peak = peakMemoryMib(readOwner(new StorePaths(data))?.archiver?.pid ?? 0)
  await stop()
  return { first, all, peak, lost: fs.readFileSync(log, 'utf8').split('a worker has ended').length - 1 }
}

async function library(ids: readonly string[]): Promise<void> {
  lose()
  await untilMemoryIsCold()
  const child = fork(path.join(import.meta.dirname, 'capacity', 'library-restores.ts'), [data, objectStore])
  child.send(ids)
  const [{ seconds, peak }] = (await once(child, 'message')) as [LibraryRestores]
  const baseline = await fetchAndWrite(ids)
  row(
    `${ids.length} restores at once in the library`,
    `${seconds.toFixed(1)} s`,
    `${baseline.toFixed(1)} s`,
    baseline / seconds,
    '≥ 0.67 × the same',
    seconds <= 1.5 * baseline,
  )
  row('memory of its process', `${peak} MiB`, '–', 400 / peak, '< 400 MB', peak * MIB < 400_000_000)
}

/** What no restore can do without. */
async function fetchAndWrite(ids: readonly string[]): Promise<number> {
  const folder = path.join(directory, 'written')
  fs.mkdirSync(folder)
  const left = [...ids]
  await untilMemoryIsCold()
  const started = performance.now()
  const one = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      const prefix = path.join(objects, 'snapshots', id)
      // The newest one; a first one was stored while the cell was filled.
      const version = fs.readdirSync(prefix).sort().at(-1) as string
      const object = await fs.promises.readFile(path.join(prefix, version))
      await using file = await fs.promises.open(path.join(folder, id), 'w')
      // By blocks: Node takes the first one of a file for all of it.
      for await (const plain of decompressSeekable(Readable.from([object]))) await writeAll(file, plain)
      await file.sync()
      if ((await file.stat()).size < MEGABYTES * 1_000_000)
        throw new Error('The bytes of a cell are not whole.')
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  const seconds = (performance.now() - started) / 1_000
  setAside(folder)
  return seconds
}

/** What a restore does to the bytes in addition: it proves each of them, and that SQLite finds no damage. @returns seconds */
function prove(ids: readonly string[]): number {
  const paths = new StorePaths(data)
  const started = performance.now()
  for (const id of ids) {
    const file = paths.cell(id).database
    createHash('sha256').update(fs.readFileSync(file)).digest()
    const database = new Database(file, { readonly: true })
    if (database.pragma('quick_check', { simple: true }) !== 'ok')
      throw new Error('A restored cell is damaged.')
    database.close()
  }
  return (performance.now() - started) / 1_000
}

function row(what: string, ours: string, theirs: string, ratio: number, aim: string, met: boolean): void {
  report({ what, ours, theirs, ratio, aim, met })
}
