import { createHash } from 'node:crypto'
import Database from 'better-sqlite3'
import type { Cell } from '../../../src/store/cell.ts'

/** What a cell holds, as one hash: its definitions, every row of every table, and the tenant's user_version. */
export function digestOf(cell: Cell): string {
  return digest((sql) => cell.sql<unknown[]>(sql, [], { rowMode: 'array' }).rows)
}

/** The same of a closed cell's file, which no cellstore has upgraded since it was restored. */
export function digestOfFile(file: string): string {
  const connection = new Database(file, { readonly: true })
  try {
    return digest((sql) => connection.prepare(sql).raw().all() as unknown[][])
  } finally {
    connection.close()
  }
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
