import { assertReadable, findDamage } from '../../engine/quick-check.ts'
import { type Connection, openConnection } from '../../engine/sqlite.ts'
import { isSqliteError } from '../../engine/sqlite-errors.ts'
import { CellError } from '../../errors.ts'
import { corrupt, localFailure } from '../archive/backup-errors.ts'

/**
 * Lets SQLite's own recovery apply the log that lies beside a restored database, and makes sure that it took every frame:
 * it stops silently at a bad one.
 *
 * @param member the log's name, for the message
 * @throws `backup_corrupt`
 */
export function applyLog(file: string, member: string, frames: number): void {
  withDatabase(file, member, (connection) => {
    connection.pragma('journal_mode = WAL')
    // The whole is fsynced at its end.
    connection.pragma('synchronous = OFF')
    connection.pragma('wal_autocheckpoint = 0')
    connection.prepare('SELECT count(*) FROM sqlite_schema').get()
    const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
    if (state?.log !== frames) throw corrupt(member, `SQLite took ${state?.log ?? 0} of its ${frames} frames`)
    const [done] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    if (done?.busy !== 0) throw corrupt(member, 'it could not be applied')
  })
}

/**
 * SQLite's own look at every page. The bytes are proven already; what is looked for is damage that was in the database
 * when it was backed up.
 *
 * @param member the database's name, for the message
 * @throws `backup_corrupt`
 */
export function proveDatabase(file: string, member: string): void {
  withDatabase(file, member, (connection) => {
    // Each page is looked at once, so a large cache only costs: measured, a sixth of the time.
    connection.pragma('cache_size = -512')
    const problem = findDamage(connection)
    if (problem !== undefined) throw corrupt(member, `SQLite finds it damaged (${problem})`)
  })
}

function withDatabase(file: string, member: string, work: (connection: Connection) => void): void {
  try {
    const connection = openConnection(file)
    try {
      work(connection)
    } finally {
      connection.close()
    }
  } catch (error) {
    // A full disk is not the backup's fault, and only SQLite finds damage.
    const isFinding = error instanceof CellError || isSqliteError(error)
    if (localFailure(error) !== undefined || !isFinding) throw error
    // Nor is a disk that does not give what was just written to it.
    assertReadable(file)
    if (error instanceof CellError) throw error
    throw corrupt(member, 'SQLite cannot use it', error)
  }
}
