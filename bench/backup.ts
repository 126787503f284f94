import { execFileSync, spawnSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { BackupResult } from '../src/backup/versions/backup-types.ts'
import { builtLibrary } from './built.ts'
import { HEAD, median, report } from './side-by-side.ts'

/**
 * Snapshot, incremental and restore of one cell with a folder as the object store, next to the tools of the trade: the
 * `sqlite3` command's `.backup` followed by `zstd -1`, and `zstd -d` with fsync; and next to a script that also proves what it
 * stores and restores, with as much side by side as can be. Needs both commands, and `openssl` and `tar`.
 */
const MEGABYTES = Number(process.env['CELLSTORE_BENCH_MB'] ?? 200)
const ROUNDS = 5
const ROW_BYTES = 1_000
const ROWS_AT_ONCE = 5_000

/** What a backup and a restore do, with the tools of the trade, each step of them a process. */
const CHECK = 'sqlite3 "file:$db?immutable=1" "PRAGMA quick_check" | grep -qx ok'
const STORE = `db=$2; cp "$1" "$db"; ${CHECK} & openssl dgst -sha256 "$db" & zstd -1 -q -f "$db" -o "$db.zst"; wait
  openssl dgst -sha256 "$db.zst"; sync "$db.zst"; rm "$db"`
const RESTORE = `db=$2/cell.db; zstd -dcq < "$1" | tar -xf - -C "$2"; ${CHECK} & openssl dgst -sha256 "$db" & sync "$db"; wait`

const { CellStore } = await builtLibrary()
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-backup-'))
const store = await CellStore.create(path.join(directory, 'data'), {
  objectStore: `file://${path.join(directory, 'objects')}`,
})
const cell = store.createCell()
const database = path.join(directory, 'data', 'cells', cell.id.slice(0, 2), cell.id, 'cell.db')
try {
  fill()
  console.log(HEAD)
  const snapshot = await snapshots()
  await incrementals(snapshot.seconds)
  await restores(snapshot.result)
  await writersDuring()
} finally {
  await store.close()
  fs.rmSync(directory, { recursive: true, force: true })
}

/** Half noise, half text, as real rows are: it compresses to about a half. */
function fill(): void {
  cell.sql('CREATE TABLE rows (id INTEGER PRIMARY KEY, noise BLOB, text TEXT)')
  for (let bytes = 0; bytes < MEGABYTES * 1_000_000; bytes += ROWS_AT_ONCE * ROW_BYTES) insert(ROWS_AT_ONCE)
}

function insert(rows: number): void {
  const noise = Buffer.alloc(ROW_BYTES / 2)
  cell.transaction(() => {
    for (let i = 0; i < rows; i++) {
      randomFillSync(noise)
      cell.sql('INSERT INTO rows (noise, text) VALUES (?, ?)', [noise, 'a line of text '.repeat(33)])
    }
  })
}

/** What was written before, by whomever, is on disk when the clock starts: nobody's fsync waits for it. */
async function timed(run: () => unknown): Promise<number> {
  execFileSync('sync')
  const started = performance.now()
  await run()
  return (performance.now() - started) / 1_000
}

/** What a script and all that it starts take of the processors, in seconds. */
function processorSeconds(text: string, ...args: string[]): number {
  const timed = 'TIMEFORMAT="%U %S"; time sh -c "$0" sh "$@" > /dev/null'
  const { stderr } = spawnSync('bash', ['-c', timed, text, ...args], { encoding: 'utf8' })
  return (stderr.trim().split('\n').at(-1) ?? '').split(' ').reduce((sum, each) => sum + Number(each), 0)
}

async function snapshots(): Promise<{ seconds: number; result: BackupResult }> {
  const ours: number[] = []
  const theirs: number[] = []
  const limits: number[] = []
  const proven: number[] = []
  const leasts: number[] = []
  let result: BackupResult | undefined
  const copy = path.join(directory, 'copy.db')
  const before = process.memoryUsage.rss()
  let peak = before
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(
      await timed(async () => {
        const watch = setInterval(() => {
          peak = Math.max(peak, process.memoryUsage.rss())
        }, 10)
        result = await store.backups.snapshot(cell.id)
        clearInterval(watch)
      }),
    )
    theirs.push(
      await timed(() => {
        fs.rmSync(copy, { force: true })
        execFileSync('sqlite3', [database, `.backup '${copy}'`])
        execFileSync('zstd', ['-1', '-q', '-f', copy, '-o', `${copy}.zst`])
      }),
    )
    limits.push(await timed(() => execFileSync('zstd', ['-1', '-q', '-f', database, '-o', `${copy}.zst`])))
    proven.push(await timed(() => script(STORE, database, copy)))
    leasts.push(processorSeconds(STORE, database, copy) / os.availableParallelism())
  }
  const seconds = median(ours)
  const ratio = median(theirs) / seconds
  report({
    what: `snapshot of ${MEGABYTES} MB`,
    ours: `${seconds.toFixed(2)} s`,
    theirs: `${median(theirs).toFixed(2)} s`,
    ratio,
    aim: '≥ 1.0 × sqlite3 .backup; zstd -1',
    met: ratio >= 1,
  })
  const limit = median(limits)
  report({
    what: 'the same, next to the limit',
    ours: `${seconds.toFixed(2)} s`,
    theirs: `${limit.toFixed(2)} s`,
    ratio: limit / seconds,
    aim: '≥ 0.8 × read; zstd -1',
    met: limit / seconds >= 0.8,
  })
  reportProofs('a script that copies, proves and syncs', seconds, median(proven))
  const least = median(leasts)
  report({
    what: `the least that this script takes, if ${os.availableParallelism()} processors share its work evenly, next to the limit`,
    ours: `${least.toFixed(2)} s`,
    theirs: `${limit.toFixed(2)} s`,
    ratio: limit / least,
    aim: 'none: so near to the limit can it come here',
    met: true,
  })
  const grown = (peak - before) / 1_048_576
  const what = 'memory while it runs'
  report({
    what,
    ours: `+${grown.toFixed(0)} MB`,
    theirs: '–',
    ratio: 150 / grown,
    aim: '≤ 150 MB',
    met: grown <= 150,
  })
  fs.rmSync(copy, { force: true })
  return { seconds, result: result as BackupResult }
}

async function incrementals(snapshotSeconds: number): Promise<void> {
  const times: number[] = []
  const sizes: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    insert(1_000)
    let result: BackupResult | undefined
    times.push(
      await timed(async () => {
        result = await store.backups.incremental(cell.id)
      }),
    )
    sizes.push((result as BackupResult).sizeBytes)
  }
  const ratio = snapshotSeconds / median(times)
  report({
    what: 'incremental after 1 MB of changes',
    ours: `${median(times).toFixed(3)} s`,
    theirs: `${snapshotSeconds.toFixed(2)} s`,
    ratio,
    aim: '≥ 10 × a snapshot',
    met: ratio >= 10,
  })
  const megabytes = Math.max(...sizes) / 1_000_000
  const what = 'its upload'
  report({
    what,
    ours: `${megabytes.toFixed(2)} MB`,
    theirs: '–',
    ratio: 3 / megabytes,
    aim: '≤ 3 MB',
    met: megabytes <= 3,
  })
}

async function restores({ version }: BackupResult): Promise<void> {
  const ours: number[] = []
  const theirs: number[] = []
  const object = path.join(directory, 'objects', version)
  const proven: number[] = []
  const plain = path.join(directory, 'plain.tar')
  const unpacked = path.join(directory, 'unpacked')
  fs.mkdirSync(unpacked)
  for (let round = 0; round < ROUNDS; round++) {
    // A restored cell gets a base at once, and one job of a cell runs at a time: a restore right after another one waits for it.
    await store.backups.incremental(cell.id)
    ours.push(await timed(() => store.backups.restore(cell.id, { version })))
    theirs.push(
      await timed(() => {
        execFileSync('zstd', ['-d', '-q', '-f', object, '-o', plain])
        const fd = fs.openSync(plain, 'r+')
        fs.fsyncSync(fd)
        fs.closeSync(fd)
      }),
    )
    fs.rmSync(plain)
    proven.push(await timed(() => script(RESTORE, object, unpacked)))
    fs.rmSync(path.join(unpacked, 'cell.db'))
  }
  const ratio = median(theirs) / median(ours)
  report({
    what: `restore of ${MEGABYTES} MB`,
    ours: `${median(ours).toFixed(2)} s`,
    theirs: `${median(theirs).toFixed(2)} s`,
    ratio,
    aim: '≥ 0.8 × zstd -d; fsync',
    met: ratio >= 0.8,
  })
  reportProofs('a script that proves and syncs', median(ours), median(proven))
}

function script(text: string, ...args: string[]): void {
  execFileSync('sh', ['-c', text, 'sh', ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
}

function reportProofs(what: string, ours: number, theirs: number): void {
  report({
    what: `the same, next to ${what}`,
    ours: `${ours.toFixed(2)} s`,
    theirs: `${theirs.toFixed(2)} s`,
    ratio: theirs / ours,
    aim: '≥ 0.8 × quick_check; SHA-256; zstd; fsync',
    met: theirs / ours >= 0.8,
  })
}

/** The time of one durable put, as a caller sees it, with and without a snapshot under way. */
async function writersDuring(): Promise<void> {
  const idle = await putTimes(async () => {
    for (let turn = 0; turn < 600; turn++) await turnOfTheLoop()
  })
  const beside = await putTimes(() => store.backups.snapshot(cell.id))
  const ratio = median(idle) / median(beside)
  report({
    what: `median put beside a snapshot (${beside.length} puts)`,
    ours: `${median(beside).toFixed(2)} ms`,
    theirs: `${median(idle).toFixed(2)} ms`,
    ratio,
    aim: '≥ 0.5 × idle',
    met: ratio >= 0.5,
  })
}

async function putTimes(until: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  let done = false
  const end = until().finally(() => {
    done = true
  })
  while (!done) {
    const started = performance.now()
    await cell.commit(() => cell.kv.put(`key:${times.length % 100}`, String(times.length)))
    times.push(performance.now() - started)
  }
  await end
  return times
}
