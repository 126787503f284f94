import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { FileObjectStore } from '../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../src/store/cell-store.ts'
import type { Cell } from '../src/store/open/cell.ts'
import { SteppedClock } from '../src/testing/stepped-clock.ts'
import { CountingStore, total } from './shipping/counting-store.ts'
import { inRealTime, pass } from './shipping/stepped-time.ts'

/**
 * What shipping asks of an object store in an hour: many cells, of which some get a commit each second. The clock is moved by
 * hand, so an hour takes a minute or so. Then another time in which nothing changes.
 */
const CELLS = Number(process.env['CELLSTORE_BENCH_CELLS'] ?? 10_000)
const BUSY = Number(process.env['CELLSTORE_BENCH_BUSY'] ?? 100)
const MINUTES = Number(process.env['CELLSTORE_BENCH_MINUTES'] ?? 32)
const AT_ONCE = 64
const LAGS_S = [10, 1]
const SECOND_MS = 1_000
/** A quarter of an hour, and half of the schedule's jitter. */
const VERSIONS_EVERY_S = 15 * 60 * 1.05
/** The record is written each 60 to 70 s. */
const RECORD_EVERY_S = 65
/** Page and frame header of a write-ahead log. */
const FRAME_BYTES = 4_096 + 24

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-requests-'))
const data = path.join(directory, 'data')
const clock = new SteppedClock()
const objects = new CountingStore(new FileObjectStore({ root: path.join(directory, 'objects') }))
try {
  await createCells()
  console.log(
    `${CELLS} cells, ${BUSY} of them with a commit each second; ${MINUTES} minutes, as figures of an hour\n`,
  )
  console.log(
    '| | requests | calculated | ratio | stored | write-ahead logs | of which |\n|---|---|---|---|---|---|---|',
  )
  for (const lagS of LAGS_S) await measure(lagS)
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}

function options(lagMs: number | null) {
  const backups = { drillEveryMs: null, maxLagMs: lagMs }
  return { objectStore: objects, durability: 'relaxed', clock, random: () => 0.5, backups } as const
}

async function createCells(): Promise<void> {
  const store = await CellStore.create(data, options(null))
  const ids = Array.from({ length: CELLS }, () => store.createCell().id)
  // A new cell has a first version coming: from then on nothing is due.
  for (let at = 0; at < ids.length; at += AT_ONCE)
    await inRealTime(clock, Promise.all(ids.slice(at, at + AT_ONCE).map((id) => store.backups.snapshot(id))))
  await inRealTime(clock, store.close())
}

async function measure(lagS: number): Promise<void> {
  const store = await CellStore.open(data, options(lagS * SECOND_MS))
  try {
    const { cells } = store.cells({ limit: BUSY })
    const busy = cells.map(({ id }) => store.openCell(id))
    // History begins with a version.
    commit(busy, 0)
    for (const { id } of busy) await inRealTime(clock, store.backups.snapshot(id))
    await inRealTime(clock, store.backups.flush())
    const changing = await letPass(store, lagS, (second) => commit(busy, second))
    row(`lag ${lagS} s`, changing, {
      ticks: changing / lagS,
      versions: Math.floor(changing / VERSIONS_EVERY_S) * BUSY,
      commits: MINUTES * 60 * BUSY,
    })
    for (const { id } of busy) await inRealTime(clock, store.backups.incremental(id))
    await inRealTime(clock, store.backups.flush())
    const quiet = await letPass(store, lagS, () => {})
    refuseOthers(row('the same, nothing changes', quiet, { ticks: 0, versions: 0, commits: 0 }))
  } finally {
    await inRealTime(clock, store.close())
  }
}

function commit(busy: readonly Cell[], second: number): void {
  for (const cell of busy) cell.kv.put(`key ${second % 50}`, String(second).padEnd(100, 'v'))
}

/** @returns how many seconds have passed */
async function letPass(store: CellStore, lagS: number, work: (second: number) => void): Promise<number> {
  objects.take()
  const began = clock.now()
  for (let second = 1; second <= MINUTES * 60; second++) {
    work(second)
    await pass(clock, store, SECOND_MS, lagS * SECOND_MS)
  }
  return (clock.now() - began) / SECOND_MS
}

interface Expected {
  ticks: number
  versions: number
  commits: number
}

/**
 * A tick has one PUT and one look at the fence. So has a version, which is listed before; and so has the record, which removes
 * the one before it.
 *
 * @returns the kinds of requests that there were
 */
function row(what: string, seconds: number, { ticks, versions, commits }: Expected): string[] {
  const counts = objects.take()
  const { requests, bytes } = total(counts.values())
  const perHour = 3_600 / seconds
  const hourly = (count: number) => Math.round(count * perHour).toLocaleString('en')
  const megabytes = (count: number) => `${((count * perHour) / 1e6).toFixed(1)} MB`
  const calculated = 2 * ticks + 3 * versions + (3 * seconds) / RECORD_EVERY_S
  const kinds = [...counts].map(([kind, { requests }]) => `${kind} ${hourly(requests)}`).join(', ')
  console.log(
    `| ${what} | ${hourly(requests)} | ${hourly(calculated)} | ${(requests / calculated).toFixed(2)} | ${megabytes(bytes)} | ${megabytes(commits * FRAME_BYTES)} | ${kinds} |`,
  )
  return [...counts.keys()]
}

/** Where nothing changes there must be no other request than those of the holder's record. */
function refuseOthers(kinds: readonly string[]): void {
  const others = kinds.filter((kind) => !/^(fence|holder) /.test(kind))
  if (others.length === 0) return
  console.log(`MISSED: nothing has changed, and there were ${others.join(', ')}`)
  process.exitCode = 1
}
