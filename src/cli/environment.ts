/** Every variable that the command reads, beside those of Node.js and of the object store's client. */
export const VARIABLES = [
  'CELLSTORE_HOST',
  'CELLSTORE_PORT',
  'CELLSTORE_DATA_DIR',
  'CELLSTORE_OBJECT_STORE',
  'CELLSTORE_ROOT_KEY',
  'CELLSTORE_BACKUP_SNAPSHOT_EVERY',
  'CELLSTORE_BACKUP_INCREMENTAL_EVERY',
  'CELLSTORE_BACKUP_KEEP',
  'CELLSTORE_WORKERS',
  'CELLSTORE_WORKER_MEMORY',
  'CELLSTORE_STATEMENT_TIMEOUT',
  'CELLSTORE_RATE',
  'CELLSTORE_CONNECTIONS',
  'CELLSTORE_DURABILITY',
  'CELLSTORE_LOG_LEVEL',
] as const

type Environment = Record<string, string | undefined>

/** An empty variable counts as one that is not set: that is how compose files and CI systems leave one out. */
export function dropEmptyVariables(environment: Environment): void {
  for (const name of VARIABLES) if (environment[name] === '') delete environment[name]
}

/** Variables that look like settings and are none: a setting that is misspelt would be off without a word. */
export function unknownVariables(environment: Environment): string[] {
  const known = new Set<string>(VARIABLES)
  return Object.keys(environment)
    .filter((name) => name.startsWith('CELLSTORE_') && !known.has(name))
    .sort()
}
