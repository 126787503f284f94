import fs from 'node:fs'
import { cuts } from '../base/long-files.ts'
import type { Connection } from './sqlite.ts'
import { WAL_HEADER_BYTES } from './wal-file.ts'

/** After a checkpoint the log begins again and is a little longer than that by then. What is longer has held a long transaction. */
const CHECKPOINTS = 2

/** Bytes from which a write-ahead log is long: it keeps them until it is cut. */
export function longLogBytes(checkpointBytes: number): number {
  return CHECKPOINTS * checkpointBytes
}

/** Bytes of a cell's write-ahead log on the disk; it carries no locks (invariant 4). */
export function logFileBytes(database: string): number {
  return fs.statSync(`${database}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Empties a long write-ahead log and gives its bytes back in pieces, for the reason that `base/long-files.ts` has. Its header goes first, and
 * durably: after a crash, a part of a log would be taken for a log, and bring back old pages. Until SQLite has begun the log again, what
 * it knows of the log would then be wrong; so nobody else may have the database open meanwhile.
 *
 * @param versionBefore {@link dataVersion} before a checkpoint that moved all of the log
 * @param truncate runs `wal_checkpoint(TRUNCATE)`
 * @returns what that returns; undefined if another program has the database open, and nothing has happened
 * @throws the errors of SQLite and of the system: the connection is of no more use then, and the log is whole, or empty
 */
export function emptyLongLog(
  connection: Connection,
  versionBefore: number,
  truncate: () => boolean,
): boolean | undefined {
  const { O_RDWR, O_DSYNC } = fs.constants
  if (O_DSYNC === undefined || !lockOut(connection)) return undefined
  try {
    let isCut = false
    try {
      isCut = dataVersion(connection) === versionBefore
      // What is written is on disk then, and nothing else: an fsync would first store all that a long transaction has left in memory.
      if (isCut) cut(`${connection.name}-wal`, O_RDWR | O_DSYNC)
    } finally {
      connection.exec('ROLLBACK')
    }
    return isCut ? truncate() : undefined
  } finally {
    letIn(connection)
  }
}

function cut(file: string, flags: number): void {
  const fd = fs.openSync(file, flags)
  try {
    const { size } = fs.fstatSync(fd)
    fs.writeSync(fd, Buffer.alloc(WAL_HEADER_BYTES), 0, WAL_HEADER_BYTES, 0)
    for (const length of cuts(size)) fs.ftruncateSync(fd, length)
  } finally {
    fs.closeSync(fd)
  }
}

/** Begins a transaction and keeps all other connections out, from now on. @returns false if there are any */
function lockOut(connection: Connection): boolean {
  connection.pragma('main.locking_mode = EXCLUSIVE')
  try {
    // Only now: the lock is that of a writer.
    connection.exec('BEGIN IMMEDIATE')
    return true
  } catch {
    connection.pragma('main.locking_mode = NORMAL')
    return false
  }
}

function letIn(connection: Connection): void {
  connection.pragma('main.locking_mode = NORMAL')
  // The lock ends with the next transaction of a writer.
  connection.exec('BEGIN IMMEDIATE; ROLLBACK')
}

/** Another value than before if another program has committed to the file meanwhile; our own commits don't count. */
export function dataVersion(connection: Connection): number {
  return connection.prepare('PRAGMA data_version').pluck().get() as number
}
