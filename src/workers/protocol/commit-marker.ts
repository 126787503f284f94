import type { CellDatabase } from '../../engine/cell-database.ts'
import type { Statement } from '../../engine/sqlite.ts'

/**
 * A row in the cell that names the last transaction a worker has made there, written in that transaction itself. A worker
 * that is killed in the middle of a COMMIT can't say whether it succeeded; the row can.
 */
const PUT = "INSERT OR REPLACE INTO main._cell_meta (key, value) VALUES ('transaction', ?)"
const GET = "SELECT value FROM main._cell_meta WHERE key = 'transaction'"

const puts = new WeakMap<CellDatabase, Statement>()

/** Call inside the transaction. */
export function writeCommitMarker(database: CellDatabase, name: string): void {
  let put = puts.get(database)
  if (put === undefined) {
    put = database.prepare(PUT)
    puts.set(database, put)
  }
  put.run(name)
}

/**
 * What the marker says, once it is on disk: the process that wrote it may have been killed before its fsync.
 *
 * @throws `cell_quarantined` if it can't be stored
 */
export function provenCommitMarker(database: CellDatabase): string | undefined {
  const name = database.prepare(GET).pluck().get() as string | undefined
  database.syncs.syncFound()
  return name
}

/** @param number later ones of a cell in one batch have greater ones */
export function transactionName(batch: string, number: number): string {
  return `${batch}.${number}`
}

/**
 * Whether a transaction was committed, by the marker that was found afterwards: it names this one, or one that the same
 * batch has made after it.
 */
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
