import { CellError } from '../errors.ts'
import type { CellDatabase } from './cell-database.ts'
import { refuseLate } from './transaction-work.ts'

/** What `cell.migrate()` did. */
export interface MigrateResult {
  /** The cell's `user_version` before. */
  from: number
  /** And now: the number of migrations. */
  to: number
}

/**
 * Brings a cell to the version that its list of migrations ends with. Each runs in one transaction with its number in
 * `PRAGMA user_version`: a crash leaves it done or not begun.
 *
 * @param use gives the open cell, which may be closed between two migrations
 */
export function migrate(use: () => CellDatabase, migrations: readonly (() => unknown)[]): MigrateResult {
  if (use().inTransaction) {
    throw new CellError(
      'invalid_request',
      'Each migration has a transaction of its own: call migrate() outside of a transaction.',
    )
  }
  const from = versionOf(use())
  const to = migrations.length
  if (from > to || from < 0) throw unknownVersion(from, to)
  for (let version = from + 1; version <= to; version++) {
    const database = use()
    const step = migrations[version - 1] as () => unknown
    database.transaction(() => {
      runStep(step, version)
      // If it has ended the transaction, and has hidden the error, the next statement would be committed on its own.
      database.assertUsable()
      database.exec(`PRAGMA main.user_version = ${version}`)
    })
  }
  return { from, to }
}

function versionOf(database: CellDatabase): number {
  return database.read(() => database.prepare('PRAGMA main.user_version').pluck().get() as number)
}

function runStep(step: () => unknown, version: number): void {
  try {
    refuseLate(step())
  } catch (error) {
    if (!(error instanceof CellError)) throw error
    const { code, message, details, cause } = error
    throw new CellError(code, `Migration ${version}: ${message}`, { ...details, cause: cause ?? error })
  }
}

function unknownVersion(version: number, known: number): CellError {
  return new CellError(
    'invalid_request',
    `The cell is at version ${version} (PRAGMA user_version), but this program has migrations up to version ${known}: ` +
      'a newer program has migrated it, or something else has set its user_version.',
    { field: 'migrations', limit: known },
  )
}
