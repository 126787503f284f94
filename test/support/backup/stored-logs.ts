import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { decompressSeekable } from '../../../src/backup/archive/zstd/seekable-zstd.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import type { LogManifest } from '../../../src/backup/shipping/log/log-manifest.ts'
import { LOG_PREFIX } from '../../../src/backup/versions/object-keys.ts'
import { collectAll } from '../s3/object-store-checks.ts'
import { tempDirectory } from '../temp-directory.ts'
import { readObject } from './object-store-decorators.ts'
import type { WalCell } from './wal-cell.ts'

const PARALLEL_READS = 16

/** A log object, taken apart without the code that restores. */
export interface TestedLog {
  key: string
  sha256: string
  manifest: LogManifest
  /** By their names. */
  members: Map<string, Buffer>
}

export async function storedLogs(store: ObjectStore): Promise<TestedLog[]> {
  const keys = (await collectAll(store.list(LOG_PREFIX))).map(({ key }) => key)
  const logs: TestedLog[] = []
  // Not all at once: what waits for a free connection counts as not connected after a while.
  for (let at = 0; at < keys.length; at += PARALLEL_READS) {
    const some = keys.slice(at, at + PARALLEL_READS)
    logs.push(...(await Promise.all(some.map(async (key) => takeApart(key, await readObject(store, key))))))
  }
  return logs
}

async function takeApart(key: string, bytes: Buffer): Promise<TestedLog> {
  const tar = Buffer.concat(await collectAll(decompressSeekable(inOne(bytes))))
  const size = Number.parseInt(tar.toString('latin1', 124, 135), 8)
  const manifest = JSON.parse(tar.toString('utf8', 512, 512 + size)) as LogManifest
  const end = 512 + Math.ceil(size / 512) * 512
  const pieces = manifest.cells.flatMap((cell) => cell.pieces)
  const members = new Map(
    pieces.map((piece) => {
      const at = end + piece.offset
      return [piece.member, tar.subarray(at, at + piece.size)]
    }),
  )
  return { key, sha256: createHash('sha256').update(bytes).digest('hex'), manifest, members }
}

async function* inOne(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/**
 * Follows the links from the newest object back, puts the pieces of a cell's history together, and lets SQLite apply them.
 *
 * @returns the numbers of the rows that it finds
 */
export function rowsIn(logs: readonly TestedLog[], cell: WalCell): number[] {
  const wals = new Map<number, Buffer>()
  for (const { manifest, members } of linked(logs)) {
    const stored = manifest.cells.find(({ cell_id }) => cell_id === cell.cellId)
    if (stored?.history !== cell.history) continue
    for (const { member, sequence, from, page_size } of stored.pieces) {
      const before = wals.get(sequence) ?? Buffer.alloc(0)
      const begin = from === 0 ? 0 : 32 + from * (24 + page_size)
      if (before.length < begin) throw new Error(`The log has a gap in WAL ${sequence} before frame ${from}.`)
      const later = [...wals.keys()].filter((each) => each > sequence)
      if (later.length > 0) throw new Error(`WAL ${sequence} comes after ${later}.`)
      wals.set(sequence, Buffer.concat([before.subarray(0, begin), members.get(member) as Buffer]))
    }
  }
  return appliedTo(cell.firstDatabase, wals)
}

/** @throws if a number is missing, or an object does not continue the one before it; or if there is none */
export async function expectUnbrokenLog(store: ObjectStore): Promise<void> {
  const logs = await storedLogs(store)
  if (logs.length === 0) throw new Error('Nothing was shipped.')
  logs.forEach(({ key, manifest }, i) => {
    const before = logs[i - 1]
    const number = before?.manifest.epoch === manifest.epoch ? before.manifest.number + 1 : 1
    if (manifest.number !== number) throw new Error(`${key} is not number ${number} of its epoch.`)
    const { previous } = manifest
    if (previous?.key !== before?.key || previous?.sha256 !== before?.sha256)
      throw new Error(`${key} continues ${previous?.key}, and not ${before?.key}.`)
  })
}

/** @throws if a link is missing, or names other bytes */
function linked(logs: readonly TestedLog[]): TestedLog[] {
  const byKey = new Map(logs.map((log) => [log.key, log]))
  const chain: TestedLog[] = []
  for (let log = logs.at(-1); log !== undefined; ) {
    chain.unshift(log)
    const { previous } = log.manifest
    const before: TestedLog | undefined = previous === null ? undefined : byKey.get(previous.key)
    if (previous !== null && before?.sha256 !== previous.sha256)
      throw new Error(`${log.key} does not continue ${previous.key}.`)
    log = before
  }
  return chain
}

function appliedTo(base: string, wals: ReadonlyMap<number, Buffer>): number[] {
  const file = path.join(tempDirectory('cellstore-rebuilt'), 'cell.db')
  fs.copyFileSync(base, file)
  const rows = () => {
    const database = new Database(file)
    try {
      return database.prepare('SELECT n FROM rows ORDER BY n').pluck().all() as number[]
    } finally {
      // Applies the WAL, and removes it.
      database.close()
    }
  }
  let found: number[] = []
  for (const [, wal] of [...wals].sort(([a], [b]) => a - b)) {
    fs.writeFileSync(`${file}-wal`, wal)
    found = rows()
  }
  return found
}
