import { execFileSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Outcome, Row, Unit } from '../results.ts'
import { type Contender, type Turn, takeTurns } from '../turns.ts'
import type { BackupPeer, BackupStore } from './backup-peer.ts'
import { peer as cellstore } from './cellstore.ts'
import { peer as litestream } from './litestream.ts'
import { peer as sqliteAndZstd } from './sqlite-and-zstd.ts'

const PEERS: Record<string, BackupPeer> = {
  cellstore,
  '.backup and zstd': sqliteAndZstd,
  Litestream: litestream,
}
const ROW_BYTES = 1_000
const ROWS_AT_ONCE = 5_000
const TICKS_PER_TURN = 500
const BETWEEN_TICKS_MS = 5

/** What was written to a history, in epoch milliseconds: the value, and when its commit was acknowledged. */
interface Tick {
  at: number
  done: number
}

interface BackupContender extends Contender {
  store: BackupStore
  ticks: Tick[]
}

/** Snapshot and restore of one database, and restores to moments of a short history. */
export async function compareBackups(
  directory: string,
  { rounds, turnMs, megabytes }: { rounds: number; turnMs: number; megabytes: number },
): Promise<Row[]> {
  const contenders: BackupContender[] = []
  const absent: Record<string, Outcome> = {}
  const rows: Row[] = []
  const add = (what: string, unit: Unit, outcomes: Record<string, Outcome>) =>
    rows.push({ group: 'backup', what, unit, contenders: { ...outcomes, ...absent } })
  try {
    for (const [name, peer] of Object.entries(PEERS)) {
      try {
        const folder = path.join(directory, name.replaceAll(' ', '-'))
        fs.mkdirSync(folder, { recursive: true })
        const version = peer.version()
        const store = await peer.open(folder)
        contenders.push({ name, version, store, ticks: [] })
        fill(store, megabytes)
      } catch (error) {
        absent[name] = { absent: (error as Error).message }
      }
    }
    const timed =
      (run: (contender: BackupContender) => Promise<unknown>) => async (each: BackupContender) => {
        // What was written before, by whomever, is on disk when the clock starts.
        execFileSync('sync')
        const started = performance.now()
        await run(each)
        return { value: (performance.now() - started) / 1_000 }
      }
    const snapshot = timed(({ store }) => store.snapshot())
    add(
      `snapshot of ${megabytes} MB`,
      's',
      await takeTurns(contenders, { rounds, warmUp: snapshot, turn: snapshot }),
    )
    const restore = timed(({ store }) => store.restore())
    add(
      `restore of ${megabytes} MB`,
      's',
      await takeTurns(contenders, { rounds, warmUp: restore, turn: restore }),
    )

    const able = contenders.filter(({ store }) => store.restoreTo !== undefined)
    for (const { name, store } of contenders)
      if (store.restoreTo === undefined) absent[name] = { absent: 'it keeps no history' }
    for (const each of able) await writeHistory(each, turnMs)
    const { took, late } = await restoresToTimes(able, rounds)
    add('restore to a time', 's', took)
    add('how much older than that time the restored state is', 'ms', late)
    return rows
  } finally {
    for (const { store } of contenders) await store.close()
  }
}

/** Half noise, half text, as real rows are: it compresses to about a half. */
function fill(store: BackupStore, megabytes: number): void {
  store.write([
    { sql: 'CREATE TABLE rows (id INTEGER PRIMARY KEY, noise BLOB, text TEXT)' },
    { sql: 'CREATE TABLE ticks (at INTEGER)' },
  ])
  const text = 'a line of text '.repeat(33)
  const sql = 'INSERT INTO rows (noise, text) VALUES (?, ?)'
  for (let bytes = 0; bytes < megabytes * 1_000_000; bytes += ROWS_AT_ONCE * ROW_BYTES)
    store.write(
      Array.from({ length: ROWS_AT_ONCE }, () => ({
        sql,
        params: [randomFillSync(Buffer.alloc(ROW_BYTES / 2)), text],
      })),
    )
}

async function writeHistory({ store, ticks }: BackupContender, turnMs: number): Promise<void> {
  await store.beginHistory?.()
  const started = performance.now()
  // Long enough for several of the second in which histories are usually stored.
  while (performance.now() - started < TICKS_PER_TURN * BETWEEN_TICKS_MS + turnMs) {
    const at = Date.now()
    store.write([{ sql: 'INSERT INTO ticks VALUES (?)', params: [at] }])
    ticks.push({ at, done: Date.now() })
    await sleep(BETWEEN_TICKS_MS)
  }
  await store.endHistory?.()
}

async function restoresToTimes(
  contenders: readonly BackupContender[],
  rounds: number,
): Promise<Record<'took' | 'late', Record<string, Outcome>>> {
  const ages = new Map<string, number[]>()
  const turn = async ({ name, store, ticks }: BackupContender): Promise<Turn> => {
    const done = ages.get(name) ?? []
    ages.set(name, done)
    // Evenly over the history, its first and last second left out.
    const [first, last] = [ticks[0] as Tick, ticks.at(-1) as Tick]
    const inner = ticks.filter(({ at, done }) => at > first.at + 1_000 && done < last.at - 1_000)
    const newest = inner[Math.floor((inner.length * (done.length + 1)) / (rounds + 1))] as Tick
    execFileSync('sync')
    const started = performance.now()
    const restored = (await store.restoreTo?.(newest.done)) as number
    const took = (performance.now() - started) / 1_000
    done.push(newest.at - restored)
    return { value: took }
  }
  const took = await takeTurns(contenders, { rounds, turn })
  const late = await takeTurns(
    contenders.filter(({ name }) => 'median' in (took[name] as Outcome)),
    { rounds, turn: async ({ name }) => ({ value: ages.get(name)?.shift() as number }) },
  )
  return { took, late: { ...took, ...late } }
}
