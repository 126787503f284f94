import fs from 'node:fs'
import { GIVEN_BACK_BYTES } from '../base/long-files.ts'
import type { Connection } from './sqlite.ts'
import { WAL_HEADER_BYTES } from './wal-file.ts'

/** After a checkpoint the log begins again and is a little longer than that by then. What is longer has held a long transaction. */
const CHECKPOINTS = 2

/** What is written is on disk then, and nothing else: an fsync would also store what a long transaction has left, right before it goes. */
const SYNCED = fs.constants.O_RDWR | fs.constants.O_DSYNC

/** Bytes from which a write-ahead log is long: it keeps them until it is cut. */
export function longLogBytes(checkpointBytes: number): number {
  return CHECKPOINTS * checkpointBytes
}

/** Bytes of a cell's write-ahead log on the disk; it carries no locks (invariant 4). */
export function logFileBytes(database: string): number {
  return fs.statSync(`${database}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Gives the bytes of a long write-ahead log back in pieces, for the reason that `base/long-files.ts` has; the last piece is left to
 * SQLite. Call it right after a `wal_checkpoint(RESTART)` that was complete: then everything is in the database, which is fsynced,
 * and nobody reads the log any more. Its header goes first, and durably: after a crash, a part of a log would be taken for a
 * log, and bring back old pages.
 *
 * @param versionBefore `PRAGMA data_version` before that checkpoint
 * @throws the errors of SQLite and of the system; the log is whole then, or empty
 */
export function cutLongLog(connection: Connection, versionBefore: unknown): void {
  const fd = fs.openSync(`${connection.name}-wal`, SYNCED)
  try {
    // No other program begins the log again meanwhile.
    connection.exec('BEGIN IMMEDIATE')
    try {
      if (dataVersion(connection) !== versionBefore) return
      fs.writeSync(fd, Buffer.alloc(WAL_HEADER_BYTES), 0, WAL_HEADER_BYTES, 0)
      const { size } = fs.fstatSync(fd)
      for (let length = size - GIVEN_BACK_BYTES; length > 0; length -= GIVEN_BACK_BYTES)
        fs.ftruncateSync(fd, length)
    } finally {
      connection.exec('ROLLBACK')
    }
  } finally {
    fs.closeSync(fd)
  }
}

/** Another value than before if another program has committed meanwhile. */
export function dataVersion(connection: Connection): unknown {
  return connection.prepare('PRAGMA data_version').pluck().get()
}
