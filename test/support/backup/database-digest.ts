import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { decodeInteger } from '../../../src/engine/statements/rows.ts'
import type { Cell } from '../../../src/store/open/cell.ts'

/** What a cell holds, as one hash: its definitions, every row of every table, and the tenant's user_version. */
export function digestOf(cell: Cell): string {
  return digest((sql) => cell.sql<unknown[]>(sql, [], { rowMode: 'array' }).rows)
}

/** The same of a closed cell's file, which no cellstore has upgraded since it was restored. */
export function digestOfFile(file: string): string {
  // A copy: a reader may leave files next to a database.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-digest-'))
  const copy = path.join(folder, 'copy.db')
  fs.copyFileSync(file, copy)
  const connection = new Database(copy)
  try {
    return digest((sql) => readExactly(connection.prepare(sql)))
  } finally {
    connection.close()
    fs.rmSync(folder, { recursive: true })
  }
}

/** As `cell.sql()` returns rows. */
function readExactly(statement: Database.Statement): unknown[][] {
  const rows = statement.raw().safeIntegers().all() as unknown[][]
  return rows.map((row) => row.map((value) => (typeof value === 'bigint' ? decodeInteger(value) : value)))
}

function digest(read: (sql: string) => unknown[][]): string {
  const hash = createHash('sha256')
  for (const [type, name, sql] of read('SELECT type, name, sql FROM main.sqlite_schema ORDER BY name')) {
    hash.update(`${type} ${name}\n${sql}\n`)
    // In order of their keys, whichever those are.
    if (type === 'table') for (const row of read(`SELECT * FROM main."${name}"`)) addRow(hash, row)
  }
  addRow(hash, read('PRAGMA user_version')[0] as unknown[])
  return hash.digest('hex')
}

function addRow(hash: ReturnType<typeof createHash>, row: unknown[]): void {
  for (const value of row) {
    if (value instanceof Uint8Array) hash.update('blob').update(value)
    else hash.update(`${typeof value} ${String(value)}\n`)
  }
}
