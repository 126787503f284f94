import type { Log } from '../base/log.ts'
import { variableOf } from './serve/limits/limit-row.ts'
import { LIMIT_ROWS } from './serve/limits/limits.ts'

/** Every variable that the command reads, except those of Node.js and of the object store's client. */
export const VARIABLES: readonly string[] = [
  'CELLSTORE_HOST',
  'CELLSTORE_PORT',
  'CELLSTORE_DATA_DIR',
  'CELLSTORE_OBJECT_STORE',
  'CELLSTORE_ROOT_KEY',
  'CELLSTORE_BACKUP_SNAPSHOT_EVERY',
  'CELLSTORE_BACKUP_INCREMENTAL_EVERY',
  'CELLSTORE_DRILL_EVERY',
  'CELLSTORE_KEEP',
  'CELLSTORE_KEEP_TENANT',
  'CELLSTORE_WORKERS',
  'CELLSTORE_DURABILITY',
  'CELLSTORE_LOG_LEVEL',
  ...LIMIT_ROWS.map(variableOf),
]

type Environment = Record<string, string | undefined>

/** An empty variable counts as not set: compose files and CI systems leave variables out in this way. */
export function dropEmptyVariables(environment: Environment): void {
  for (const name of VARIABLES) if (environment[name] === '') delete environment[name]
}

/** A misspelt variable would otherwise be ignored without a word. */
export function warnOfUnknownVariables(environment: Environment, log: Log): void {
  const known = new Set(VARIABLES)
  const unknown = Object.keys(environment).filter((name) => name.startsWith('CELLSTORE_') && !known.has(name))
  for (const name of unknown.sort()) log.warn({ name }, 'cellstore does not know this environment variable')
}
