import fs from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { mapLimit } from '../base/async/map-limit.ts'
import { exists, fsyncDirectory } from '../base/files/durable-files.ts'
import { isUnreadable } from '../base/files/unreadable.ts'
import { writeAllSync } from '../base/files/write-all.ts'
import { SYNCS_AT_ONCE } from './log-file.ts'
import { type LogContents, type LogEntry, readLog, SALTS_BYTES } from './log-format.ts'

const fsync = promisify(fs.fsync)

/** Where the salts stand in a WAL: sqlite.org/fileformat2, 4.1. */
const SALTS_AT = 16

/** What the logs belong to. */
export interface LoggedStore {
  /** The folder of all logs. */
  directory: string
  /** The path of a cell's WAL. */
  wal(cellId: string): string
}

/** What {@link redo} has brought back, and what it could not. */
export interface RedoOutcome {
  /** Cells all of whose records are where they belong, or are not needed. */
  redone: Set<string>
  /** For each cell, the length that its WAL must have. */
  damaged: Map<string, number>
  /** Cells whose WAL could not be read or written, and why: their records are in the logs alone. */
  unreadable: Map<string, Error>
  /** Records of other cells may be missing too. */
  isNameLost: boolean
}

/**
 * Brings every acknowledged commit back into its WAL, after the processes that wrote the logs have ended: whatever a power
 * loss has left of the WAL, SQLite's own recovery finds the commits afterwards. It can be repeated, also after it was
 * interrupted. The logs stay until {@link removeLogs}. A cell that is unreadable holds up no other.
 *
 * A record counts only for a WAL with the same salts, and no WAL is ever made. SQLite makes the header of a WAL durable before
 * it writes a commit under new salts, and only once all commits under the old ones are durable in the database. So a record
 * with other salts is not needed. One with the same salts holds what SQLite has put there: a committed frame is never
 * overwritten under the same salts, whatever process has the cell.
 */
export async function redo(store: LoggedStore): Promise<RedoOutcome> {
  const named = new Set<string>()
  const touched = new Set<string>()
  const damaged = new Map<string, number>()
  const unreadable = new Map<string, Error>()
  let isNameLost = false
  const failed = (cellId: string, error: unknown) => {
    if (!isUnreadable(error)) throw error
    unreadable.set(cellId, error)
  }
  for (const file of logFiles(store.directory)) {
    const contents = readLog(fs.readFileSync(file))
    const all = [...contents.records, ...contents.damaged]
    if (contents.isNameLost) isNameLost = true
    for (const [cellId, own] of Map.groupBy(all, (record) => record.cellId)) {
      named.add(cellId)
      try {
        const needed = rewrite(store.wal(cellId), own)
        if (needed.length > 0) touched.add(cellId)
        const lost = needed.filter(({ bytes }) => bytes === undefined)
        const end = Math.max(...lost.map((entry) => entry.offset + entry.length))
        if (lost.length > 0) damaged.set(cellId, Math.max(damaged.get(cellId) ?? 0, end))
      } catch (error) {
        failed(cellId, error)
      }
    }
  }
  await mapLimit([...touched], SYNCS_AT_ONCE, (cellId) =>
    syncFile(store.wal(cellId)).catch((error) => failed(cellId, error)),
  )
  const redone = new Set([...named].filter((cellId) => !unreadable.has(cellId)))
  return { redone, damaged, unreadable, isNameLost }
}

/** @param owner of the logs; by default all */
export function removeLogs(directory: string, owner?: string): void {
  const files = logFiles(directory, owner)
  for (const file of files) fs.rmSync(file, { force: true })
  if (files.length > 0) fsyncDirectory(directory)
}

/**
 * Makes the logs of a process that was killed superfluous, while others go on: the system has what it wrote, so each WAL that
 * they name is fsynced, and then they are removed. Nothing is written to a WAL, and no cell waits.
 *
 * @param hasFailed whether the disk has failed under a cell: its worker may have been told by an fsync, and one that succeeds after that proves nothing. Asked after the fsyncs
 * @returns false if that could not be done: the logs stay for the next start
 * @throws what an fsync throws; `Error` if the disk has failed under a cell
 */
export async function supersede(
  store: LoggedStore,
  owner: string,
  hasFailed: (cellId: string) => boolean,
): Promise<boolean> {
  const cells = new Set<string>()
  for (const file of logFiles(store.directory, owner)) {
    const contents: LogContents = readLog(await fs.promises.readFile(file))
    if (contents.isNameLost) return false
    for (const { cellId } of [...contents.records, ...contents.damaged]) cells.add(cellId)
  }
  await mapLimit([...cells], SYNCS_AT_ONCE, (cellId) => syncFile(store.wal(cellId)))
  for (const cellId of cells)
    if (hasFailed(cellId)) throw new Error(`The disk has failed under the cell ${cellId}.`)
  removeLogs(store.directory, owner)
  return true
}

function logFiles(directory: string, owner?: string): string[] {
  if (!exists(directory)) return []
  const names = fs.readdirSync(directory).filter((name) => name.endsWith('.log'))
  const own = owner === undefined ? names : names.filter((name) => name.startsWith(`${owner}.`))
  return own.map((name) => path.join(directory, name))
}

/** @returns the records that belong to this WAL */
function rewrite(wal: string, records: readonly LogEntry[]): LogEntry[] {
  if (!exists(wal)) return []
  const fd = fs.openSync(wal, 'r+')
  try {
    const salts = Buffer.alloc(SALTS_BYTES)
    fs.readSync(fd, salts, 0, SALTS_BYTES, SALTS_AT)
    const own = records.filter((record) => record.salts.equals(salts))
    for (const { bytes, offset } of own) {
      if (bytes !== undefined) writeAllSync(fd, bytes, offset)
    }
    return own
  } finally {
    fs.closeSync(fd)
  }
}

/** Without the file, all that it held is in the database, or the cell is gone. */
async function syncFile(file: string): Promise<void> {
  let fd: number
  try {
    fd = fs.openSync(file, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  try {
    await fsync(fd)
  } finally {
    fs.closeSync(fd)
  }
}
