import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { tempDirectory } from './temp-directory.ts'

/** Files that a store exports or imports, as other programs make them. */

/** A path in a folder of the test. */
export const place = (name = 'file.db') => path.join(tempDirectory(), name)

/** A database that was made elsewhere. */
export function foreign(schema: string, prepare = ''): string {
  const file = place()
  const database = new Database(file)
  database.exec(`${prepare}; ${schema}`)
  database.close()
  return file
}

/** What is left of a store's work on files. @param cells that it has */
export function leftOvers({ directory }: { directory: string }, cells: number): string[] {
  const paths = new StorePaths(directory)
  const spooled = fs.existsSync(paths.spool) ? fs.readdirSync(paths.spool) : []
  const parts = fs.existsSync(paths.cells) ? fs.readdirSync(paths.cells) : []
  const folders = parts.flatMap((each) => fs.readdirSync(path.join(paths.cells, each)))
  return folders.length === cells ? spooled : [...spooled, ...folders]
}

export function text(content: string): string {
  const file = place()
  fs.writeFileSync(file, content)
  return file
}

export function cut(file: string, bytes: number): string {
  fs.truncateSync(file, bytes)
  return file
}

/** Overwrites the inside of every page but the first. */
export function damaged(file: string): string {
  const bytes = fs.readFileSync(file)
  for (let at = 4_096; at < bytes.length; at += 4_096) bytes.fill(0x5a, at, at + 200)
  fs.writeFileSync(file, bytes)
  return file
}

export function unsafe(sql: string): string {
  const file = place()
  const database = new Database(file)
  database.unsafeMode()
  database.exec(`PRAGMA writable_schema = ON; ${sql}`)
  database.close()
  return file
}

/** Changes tables without their indexes, so that these no longer agree with them. */
export function behindItsIndexes(file: string, change: string): string {
  const steps = [
    `CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL;
      PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`,
    `${change}; PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept;
      PRAGMA writable_schema = RESET; DROP TABLE kept`,
  ]
  for (const step of steps) {
    const database = new Database(file)
    database.unsafeMode()
    database.exec(step)
    database.close()
  }
  return file
}
