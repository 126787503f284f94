import { CellError } from '../errors.ts'
import { refuseLate } from './commits/transaction-work.ts'
import type { CellAccess } from './holds/cell-access.ts'

/** What `cell.migrate()` did. */
export interface MigrateResult {
  /** The cell's `user_version` before. */
  from: number
  /** And now: the number of migrations. */
  to: number
}

/**
 * Brings a cell to the version that its list of migrations ends with. Each runs in one transaction with its number in
 * `PRAGMA user_version`: a crash leaves it done or not begun. Foreign keys are off meanwhile, so that a table to which others refer
 * can be rebuilt, and are checked before the COMMIT, as SQLite's documentation of ALTER TABLE says.
 *
 * @param use gives the open cell, which may be closed between two migrations
 */
export function migrate(use: () => CellAccess, migrations: readonly (() => unknown)[]): MigrateResult {
  refuseInside(use())
  const from = pragma(use(), 'user_version') as number
  const to = migrations.length
  if (from > to || from < 0) throw unknownVersion(from, to)
  for (let version = from + 1; version <= to; version++) {
    const database = use()
    const step = migrations[version - 1] as () => unknown
    inStep(version, () =>
      withoutForeignKeys(database, () => {
        refuseLate(step())
        // If it has ended the transaction, and has hidden the error, the next statement would be committed on its own.
        database.assertUsable()
        database.exec(`PRAGMA main.user_version = ${version}`)
      }),
    )
  }
  return { from, to }
}

/**
 * Runs `work` in one transaction with foreign keys off, and checks them before the COMMIT. They stay off, and unchecked, if the program
 * has turned them off itself.
 *
 * @throws `constraint_violation`, `invalid_request` inside a transaction
 */
export function withoutForeignKeys(database: CellAccess, work: () => void): void {
  refuseInside(database)
  const wereOn = pragma(database, 'foreign_keys') === 1
  if (wereOn) database.enforceForeignKeys(false)
  try {
    database.transaction(() => {
      work()
      database.assertUsable()
      if (wereOn) checkForeignKeys(database)
    })
  } finally {
    // What is in quarantine is not used again.
    if (wereOn && database.usable) database.enforceForeignKeys(true)
  }
}

function refuseInside(database: CellAccess): void {
  if (!database.inTransaction) return
  throw new CellError(
    'invalid_request',
    'Each migration has a transaction of its own: call migrate() outside of a transaction.',
  )
}

interface Violation {
  table: string
  rowid: number | null
  parent: string
}

/** @throws `constraint_violation` */
function checkForeignKeys(database: CellAccess): void {
  const first = () => database.prepare('PRAGMA main.foreign_key_check').get()
  const violation = database.read(first) as Violation | undefined
  if (violation === undefined) return
  const { table, rowid, parent } = violation
  const row = rowid === null ? 'A row' : `The row with rowid ${rowid}`
  throw new CellError(
    'constraint_violation',
    `${row} of the table "${table}" refers to a row that the table "${parent}" does not have (PRAGMA foreign_key_check). ` +
      'Foreign keys are off in a migration, so no ON DELETE or ON UPDATE acts: it has to change both tables.',
    { sqliteCode: 'SQLITE_CONSTRAINT_FOREIGNKEY' },
  )
}

function pragma(database: CellAccess, name: string): unknown {
  return database.read(() => database.prepare(`PRAGMA main.${name}`).pluck().get())
}

function inStep(version: number, run: () => void): void {
  try {
    run()
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
