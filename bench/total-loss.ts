import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import Database from 'better-sqlite3'
import { StorePaths } from '../src/base/store-paths.ts'
import { BenchNode, peakMemoryMib } from './capacity/bench-node.ts'
import type { LibraryRestores } from './capacity/library-restores.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * All cells of a node are lost, and all are requested at once: from a node with two workers, and from the library. Next to
 * it: the same objects read, decompressed, written and synced, as many at a time; and a program that also proves them.
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
let setAsides = 0
const objectStore = pathToFileURL(objects).href
try {
  const ids = await store(Math.max(CELLS, LIBRARY_CELLS))
  console.log(`load ${os.loadavg()[0]?.toFixed(1)}\n${HEAD}`)
  await node(ids.slice(0, CELLS))
  await library(ids.slice(0, LIBRARY_CELLS))
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}

/** Makes the cells and their backups. */
async function store(count: number): Promise<string[]> {
  const node = await BenchNode.start({ directory: data, objectStore })
  const ids: string[] = []
  try {
    for (let i = 0; i < count; i++) {
      const { id } = node.core.createCell()
      ids.push(id)
      await node.service.execute(id, { op: 'sql', sql: 'CREATE TABLE t (b)' })
      for (let part = 0; part < MEGABYTES; part++)
        await node.service.execute(id, { op: 'sql', sql: 'INSERT INTO t VALUES (randomblob(1000000))' })
    }
    for (let at = 0; at < ids.length; at += 16)
      await Promise.all(ids.slice(at, at + 16).map((id) => node.service.backup(id, 'snapshot')))
  } finally {
    await node.close()
  }
  return ids
}

/** Sets aside what is lost. */
function lose(): void {
  const { cells, localState } = new StorePaths(data)
  // With local.db, a start would take the disk of the cells for not mounted.
  for (const lost of [cells, localState]) setAside(lost)
}

/**
 * Gives the memory of a directory's files free for the next measurement: new memory costs a virtual machine several times the
 * write. The files stay, empty: for a minute after a mass deletion, ext4 makes new files slowly.
 */
function setAside(lost: string): void {
  const aside = path.join(directory, `aside-${++setAsides}`)
  fs.renameSync(lost, aside)
  const files = fs.statSync(aside).isFile()
    ? []
    : fs.readdirSync(aside, { recursive: true, withFileTypes: true })
  for (const file of files) if (file.isFile()) fs.truncateSync(path.join(file.parentPath, file.name))
}

interface NodeRestores {
  /** Seconds until the first answer, and until all. */
  first: number
  all: number
  /** MiB, of the archiver. */
  peak: number
  /** Workers that ended. */
  lost: number
}

async function node(ids: readonly string[]): Promise<void> {
  const rounds: (NodeRestores & { baseline: number; proven: number })[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const restores = await restoreOnNode(ids)
    const baseline = await fetchAndWrite(ids)
    rounds.push({ ...restores, baseline, proven: baseline + prove(ids) })
  }
  const { first, all, baseline, proven } = medians(rounds)
  const peak = Math.max(...rounds.map((round) => round.peak))
  const lost = rounds.reduce((sum, round) => sum + round.lost, 0)
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

async function restoreOnNode(ids: readonly string[]): Promise<NodeRestores> {
  lose()
  const node = await BenchNode.start({ directory: data, objectStore })
  const started = performance.now()
  const seconds = () => (performance.now() - started) / 1_000
  let first = 0
  const sum = { op: 'sql', sql: 'SELECT sum(length(b)) AS bytes FROM t' } as const
  await Promise.all(
    ids.map(async (id) => {
      const { rows } = await node.service.execute(id, sum)
      first ||= seconds()
      if (!isWhole(rows)) throw new Error('A restored cell is not whole.')
    }),
  )
  const all = seconds()
  const peak = peakMemoryMib(node.archiver)
  const lost = node.lostWorkers()
  await node.close()
  return { first, all, peak, lost }
}

function isWhole(rows: readonly unknown[]): boolean {
  const [{ bytes }] = rows as [{ bytes: number }]
  return bytes === MEGABYTES * 1_000_000
}

async function library(ids: readonly string[]): Promise<void> {
  lose()
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
  const started = performance.now()
  const one = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      const prefix = path.join(objects, 'snapshots', id)
      const version = fs.readdirSync(prefix).find((name) => name.startsWith('backup-')) as string
      const plain = await decompress(await fs.promises.readFile(path.join(prefix, version)))
      const file = await fs.promises.open(path.join(folder, id), 'w')
      await file.write(plain)
      await file.sync()
      await file.close()
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

function decompress(bytes: Buffer): Promise<Buffer> {
  return promisify(zlib.zstdDecompress)(bytes)
}

function row(what: string, ours: string, theirs: string, ratio: number, aim: string, met: boolean): void {
  report({ what, ours, theirs, ratio, aim, met })
}
