import fs from 'node:fs'
import path from 'node:path'
import { CellError } from '../../errors.ts'
import type { Connection } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'

const ATTACHED = 'SELECT name, file FROM pragma_database_list'

/**
 * Runs an ATTACH. Only afterwards is it known which file it names: that can be any expression. A file of the store's is detached
 * again, since the engine must know of every commit to it.
 *
 * @param storeDirectory undefined: the cell is in no store
 * @throws `statement_not_allowed`; `sql_error` whatever is wrong with the file: the cell's own is as well as before
 */
export function attach<T>(connection: Connection, storeDirectory: string | undefined, run: () => T): T {
  const before = namesOf(connection)
  const result = orSqlError('The database was not attached', run)
  if (storeDirectory === undefined) return result
  for (const [name, file] of filesOf(connection)) {
    if (before.has(name) || file === '' || !isBelow(storeDirectory, file)) continue
    connection.exec(`DETACH "${name.replaceAll('"', '""')}"`)
    throw new CellError(
      'statement_not_allowed',
      "A file in the store's directory cannot be attached: use the cell that it belongs to.",
    )
  }
  return result
}

/** Runs what opens a file that is not the cell's, or makes one. @throws `sql_error` if that fails */
export function orSqlError<T>(what: string, run: () => T, isMeant = (_sqliteCode: string) => true): T {
  try {
    return run()
  } catch (error) {
    if (!isSqliteError(error) || !isMeant(error.code)) throw error
    throw new CellError('sql_error', `${what}: ${error.message}`, { sqliteCode: error.code, cause: error })
  }
}

function filesOf(connection: Connection): [name: string, file: string][] {
  return connection.prepare(ATTACHED).raw().all() as [string, string][]
}

function namesOf(connection: Connection): Set<string> {
  return new Set(filesOf(connection).map(([name]) => name))
}

/** By the names that links lead to. A file that was removed meanwhile is where its folder is. */
function isBelow(directory: string, file: string): boolean {
  const folder = fs.realpathSync(path.dirname(file))
  const name = path.join(folder, path.basename(file))
  const real = fs.existsSync(name) ? fs.realpathSync(name) : name
  return real.startsWith(fs.realpathSync(directory) + path.sep)
}
