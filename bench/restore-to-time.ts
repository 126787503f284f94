import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { FileObjectStore } from '../src/backup/object-store/file/file-object-store.ts'
import { CellStore } from '../src/store/cell-store.ts'
import type { Cell } from '../src/store/open/cell.ts'
import { SteppedClock } from '../src/testing/stepped-clock.ts'
import { BY_HAND } from './capacity/bench-node.ts'
import { CountingStore, total } from './shipping/counting-store.ts'
import { inRealTime, pass } from './shipping/stepped-time.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * A large cell is restored to random times of the last hour, in which it had some commits in each tick of shipping and a version
 * every quarter of an hour: next to the restore of the version from which that restore begins. The clock is moved by hand.
 */
const MEGABYTES = Number(process.env['CELLSTORE_BENCH_MB'] ?? 200)
const TICKS = Number(process.env['CELLSTORE_BENCH_TICKS'] ?? 360)
const PAIRS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 7)
const COMMITS_PER_TICK = 10
const AIM = 2
const HOUR_MS = 3_600_000
const VERSION_EVERY_MS = HOUR_MS / 4
const TICK_MS = Math.round(HOUR_MS / TICKS)
/** A little less, so that each tick is due when its time has passed. */
const LAG_MS = Math.max(1_000, TICK_MS - 100)

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-to-time-'))
const clock = new SteppedClock()
const objects = new CountingStore(new FileObjectStore({ root: path.join(directory, 'objects') }))
const store = await CellStore.create(path.join(directory, 'data'), {
  objectStore: objects,
  clock,
  backups: { ...BY_HAND, maxLagMs: LAG_MS },
})
try {
  const cell = createCell()
  await inRealTime(clock, store.backups.snapshot(cell.id))
  await inRealTime(clock, store.backups.flush())
  const from = clock.now()
  objects.take()
  await writeAnHour(cell)
  const logs = objects.take().get('log put')
  console.log(
    `a cell of ${MEGABYTES} MB; ${logs?.requests} log objects with ${((logs?.bytes ?? 0) / 1e6).toFixed(1)} MB\n`,
  )
  await compare(cell.id, from)
} finally {
  await inRealTime(clock, store.close())
  fs.rmSync(directory, { recursive: true, force: true })
}

function createCell(): Cell {
  const cell = store.createCell()
  cell.sql('CREATE TABLE t (n INTEGER PRIMARY KEY, changed INTEGER, b BLOB)')
  for (let i = 0; i < MEGABYTES * 100; i += 1_000) {
    cell.transaction(() => {
      for (let n = i; n < Math.min(i + 1_000, MEGABYTES * 100); n++)
        cell.sql('INSERT INTO t VALUES (?, 0, randomblob(9900))', [n])
    })
  }
  return cell
}

/** The last commit of each tick is the only one that has its number in row 0. */
async function writeAnHour(cell: Cell): Promise<void> {
  let versionAt = clock.now() + VERSION_EVERY_MS
  for (let tick = 1; tick <= TICKS; tick++) {
    for (let i = 1; i <= COMMITS_PER_TICK; i++) {
      const n = i === COMMITS_PER_TICK ? 0 : Math.floor(Math.random() * MEGABYTES * 100)
      cell.sql('UPDATE t SET changed = ? WHERE n = ?', [tick, n])
    }
    await pass(clock, store, TICK_MS, LAG_MS)
    if (clock.now() < versionAt) continue
    versionAt += VERSION_EVERY_MS
    await inRealTime(clock, store.backups.incremental(cell.id))
  }
}

async function compare(cellId: string, from: number): Promise<void> {
  const to = clock.now()
  const times = { ours: [] as number[], theirs: [] as number[] }
  const requests = { ours: [] as number[], theirs: [] as number[] }
  const ratios: number[] = []
  const restore = async (name: 'ours' | 'theirs', target: { timestamp: number } | { version: string }) => {
    objects.take()
    const started = performance.now()
    const restored = await inRealTime(clock, store.backups.restore(cellId, target))
    const took = performance.now() - started
    times[name].push(took)
    requests[name].push(total(objects.take().values()).requests)
    return { took, restored }
  }
  for (let pair = 0; pair <= PAIRS; pair++) {
    const timestamp = Math.round(from + Math.random() * (to - from))
    const ours = await restore('ours', { timestamp })
    const theirs = await restore('theirs', { version: ours.restored.version })
    ratios.push(theirs.took / ours.took)
    // The first warms up.
    if (pair === 0)
      for (const list of [...Object.values(times), ...Object.values(requests), ratios]) list.length = 0
  }
  const shown = (name: 'ours' | 'theirs') =>
    `${(median(times[name]) / 1_000).toFixed(2)} s, ${median(requests[name])} requests`
  const ratio = median(ratios)
  console.log(HEAD)
  report({
    what: `a restore to a time of the last hour, ${TICKS} ticks`,
    ours: shown('ours'),
    theirs: `${shown('theirs')}, the version`,
    ratio,
    aim: `≤ ${AIM} × the plain restore`,
    met: ratio >= 1 / AIM,
  })
}
