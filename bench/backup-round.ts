import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { StorePaths } from '../src/base/files/store-paths.ts'
import { BenchNode, BY_HAND, peakMemoryMib, processorSeconds } from './capacity/bench-node.ts'
import { SlowBucket } from './capacity/bucket-process.ts'

/**
 * Rounds of scheduled backups: every cell has one small change, and a node backs them all up through an object store that
 * answers each request after a delay. Each round begins with a new node, which remembers nothing but its data directory.
 */
const CELLS = Number(process.env['CELLSTORE_BENCH_CELLS'] ?? 1_000)
const LATENCY_MS = Number(process.env['CELLSTORE_BENCH_LATENCY_MS'] ?? 15)
const AT_ONCE = process.env['CELLSTORE_BENCH_AT_ONCE']
const AIM_CELLS = 10_000
const AIM_MINUTES = 15
const SIX_HOURS_MS = 6 * 3_600_000

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-round-'))
const data = path.join(directory, 'data')
const bucket = await SlowBucket.start(LATENCY_MS)
const concurrency = AT_ONCE === undefined ? {} : { concurrency: Number(AT_ONCE) }
try {
  console.log(`${CELLS} cells, ${LATENCY_MS} ms per request; load ${os.loadavg()[0]?.toFixed(1)}\n`)
  console.log(
    `| round | time | ms each | ${AIM_CELLS} cells | requests per backup | processor ms each: node, workers, archiver | archiver | |`,
  )
  console.log('|---|---|---|---|---|---|---|---|')
  let ids = await change([])
  await round('first: a base of each cell')
  ids = await change(ids)
  await round('an incremental of each')
  ids = await change(ids)
  lookAtAllVersions()
  await round('the same, with a look at all versions of each (every 6 hours)')
} finally {
  bucket.stop()
  fs.rmSync(directory, { recursive: true, force: true })
}

/** Changes each cell once; creates them first if there are none. */
async function change(known: readonly string[]): Promise<string[]> {
  const node = await BenchNode.start({ directory: data, objectStore: bucket.url, backups: BY_HAND })
  try {
    const ids = known.length > 0 ? [...known] : Array.from({ length: CELLS }, () => node.core.createCell().id)
    for (let at = 0; at < ids.length; at += 64) {
      const some = ids.slice(at, at + 64)
      const put = { op: 'kv.put', key: 'key', value: String(Math.random()) } as const
      await Promise.all(some.map((id) => node.service.execute(id, put)))
    }
    return ids
  } finally {
    await node.close()
  }
}

async function round(what: string): Promise<void> {
  const node = await BenchNode.start({
    directory: data,
    objectStore: bucket.url,
    backups: { snapshotEveryMs: null, incrementalEveryMs: 1, ...concurrency },
  })
  await bucket.counts()
  const processes = () => [[process.pid], node.workers, [node.archiver]]
  const used = () => processes().map((pids) => pids.reduce((sum, pid) => sum + processorSeconds(pid), 0))
  const before = used()
  const started = performance.now()
  const { progress } = node.core.destination as NonNullable<typeof node.core.destination>
  while (progress.lag(node.core.id).changed > 0) await sleep(20)
  const seconds = (performance.now() - started) / 1_000
  const processor = used().map((now, i) => (((now - (before[i] as number)) * 1_000) / CELLS).toFixed(1))
  const peak = peakMemoryMib(node.archiver)
  await node.close()
  const counts = Object.entries(await bucket.counts())
  const requests = counts.map(([kind, count]) => `${kind} ${(count / CELLS).toFixed(2)}`).join(', ')
  const minutes = ((seconds / CELLS) * AIM_CELLS) / 60
  const verdict = minutes <= AIM_MINUTES ? 'met' : 'MISSED'
  console.log(
    `| ${what} | ${seconds.toFixed(1)} s | ${((seconds / CELLS) * 1_000).toFixed(1)} | ${minutes.toFixed(1)} min | ${requests} | ${processor.join(', ')} | ${peak} MiB | ${verdict} |`,
  )
}

/** As if it were six hours later: the next backup of each cell looks at all of its versions. */
function lookAtAllVersions(): void {
  const state = new Database(new StorePaths(data).localState)
  state.prepare('UPDATE backup_retention SET pruned_at = pruned_at - ?').run(SIX_HOURS_MS)
  state.close()
}
