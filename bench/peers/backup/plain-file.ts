import fs from 'node:fs'
import Database from 'better-sqlite3'
import type { BackupStore } from './backup-peer.ts'

/** The database of peers that back up a file of SQLite. */
export function openPlainFile(file: string): { write: BackupStore['write']; close(): void } {
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  const statements = new Map<string, Database.Statement>()
  const prepared = (sql: string) => {
    const found = statements.get(sql) ?? database.prepare(sql)
    statements.set(sql, found)
    return found
  }
  return {
    write: database.transaction((all: Parameters<BackupStore['write']>[0]) => {
      for (const { sql, params = [] } of all) prepared(sql).run(params)
    }),
    close: () => database.close(),
  }
}

/** So that each peer's result is on disk when its clock stops. */
export function syncFile(file: string): void {
  const opened = fs.openSync(file, 'r+')
  fs.fsyncSync(opened)
  fs.closeSync(opened)
}
