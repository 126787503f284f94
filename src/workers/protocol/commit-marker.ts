import type { CellDatabase } from '../../engine/cell-database.ts'
import type { Statement } from '../../engine/sqlite.ts'

/**
 * The commit marker: a row in the cell with the name of the last transaction of a batch, written in that transaction
 * itself. If a worker is killed during a COMMIT, the marker tells whether the COMMIT succeeded.
 */
const PUT = "INSERT OR REPLACE INTO main._cell_meta (key, value) VALUES ('transaction', ?)"
const GET = "SELECT value FROM main._cell_meta WHERE key = 'transaction'"

const puts = new WeakMap<CellDatabase, Statement>()

/** Call it inside the transaction. */
export function writeCommitMarker(database: CellDatabase, name: string): void {
  let put = puts.get(database)
  if (put === undefined) {
    put = database.prepare(PUT)
    puts.set(database, put)
  }
  put.run(name)
}

/**
 * Reads the marker and makes sure that it is on disk: the process that wrote it may have been killed before its fsync.
 *
 * @throws `cell_quarantined` if the fsync fails
 */
export function provenCommitMarker(database: CellDatabase): string | undefined {
  const name = database.prepare(GET).pluck().get() as string | undefined
  database.syncs.syncFound()
  return name
}

/** @param number grows with each transaction of a cell in one batch */
export function transactionName(batch: string, number: number): string {
  return `${batch}.${number}`
}

/** Whether a transaction was committed: the marker names it, or a later transaction of the same batch. */
export function wasCommitted(transaction: string, marker: string | undefined): boolean {
  if (marker === undefined) return false
  const [batch, number] = split(transaction)
  const [lastBatch, lastNumber] = split(marker)
  return batch === lastBatch && number <= lastNumber
}

function split(transaction: string): [batch: string, number: number] {
  const dot = transaction.lastIndexOf('.')
  return [transaction.slice(0, dot), Number(transaction.slice(dot + 1))]
}
