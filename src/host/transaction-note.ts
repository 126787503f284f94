import type { CellDatabase } from '../engine/cell-database.ts'
import type { Statement } from '../engine/sqlite.ts'

/**
 * A row in the cell that names the last transaction a host has made there, written in that transaction itself. A host
 * that is killed in the middle of a COMMIT can't say whether it succeeded; the row can.
 */
const PUT = "INSERT OR REPLACE INTO main._cell_meta (key, value) VALUES ('transaction', ?)"
const GET = "SELECT value FROM main._cell_meta WHERE key = 'transaction'"

const puts = new WeakMap<CellDatabase, Statement>()

/** Call inside the transaction. */
export function noteTransaction(database: CellDatabase, name: string): void {
  let put = puts.get(database)
  if (put === undefined) {
    put = database.prepare(PUT)
    puts.set(database, put)
  }
  put.run(name)
}

export function lastTransaction(database: CellDatabase): string | undefined {
  return database.prepare(GET).pluck().get() as string | undefined
}
