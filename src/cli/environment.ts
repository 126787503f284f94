import { unknownName } from '../base/options/known-names.ts'
import { CellError } from '../errors.ts'
import { KEY_VARIABLE } from './remote/remote-node.ts'
import { variableOf } from './serve/limits/limit-row.ts'
import { LIMIT_ROWS } from './serve/limits/limits.ts'
import { HISTORY_VARIABLE } from './sql/history.ts'

/** Every variable that the command reads, except those of Node.js and of the object store's client. */
export const VARIABLES: readonly string[] = [
  'CELLSTORE_HOST',
  'CELLSTORE_PORT',
  'CELLSTORE_CORS_ORIGIN',
  'CELLSTORE_DATA_DIR',
  'CELLSTORE_OBJECT_STORE',
  'CELLSTORE_OBJECT_STORE_WAIT',
  'CELLSTORE_ROOT_KEY',
  'CELLSTORE_BACKUP_SNAPSHOT_EVERY',
  'CELLSTORE_BACKUP_INCREMENTAL_EVERY',
  'CELLSTORE_DRILL_EVERY',
  'CELLSTORE_MAX_LAG',
  'CELLSTORE_KEEP_HISTORY',
  'CELLSTORE_RECOVERY',
  'CELLSTORE_KEEP',
  'CELLSTORE_KEEP_TENANT',
  'CELLSTORE_WORKERS',
  'CELLSTORE_DURABILITY',
  'CELLSTORE_DRAIN',
  'CELLSTORE_LEASE',
  'CELLSTORE_CLUSTER',
  'CELLSTORE_ADVERTISE',
  'CELLSTORE_CLUSTER_TTL',
  'CELLSTORE_LOG_LEVEL',
  'CELLSTORE_METRICS_HOST',
  'CELLSTORE_METRICS_PORT',
  'CELLSTORE_SLOW',
  'CELLSTORE_URL',
  KEY_VARIABLE,
  HISTORY_VARIABLE,
  ...LIMIT_ROWS.map(variableOf),
]

const PREFIX = 'CELLSTORE_'

type Environment = Record<string, string | undefined>

/** What Kubernetes adds for each service: for one that is called `cellstore`, with our prefix. */
const OF_SERVICE = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$/
const ADDRESS_OF_SERVICE = /^(tcp|udp|sctp):\/\//

/**
 * An empty variable counts as not set: compose files and CI systems leave variables out in this way. So does what
 * Kubernetes says about services, `CELLSTORE_PORT=tcp://10.0.0.1:80` for example.
 */
export function dropUnsetVariables(environment: Environment): void {
  for (const [name, value] of Object.entries(environment)) {
    // Empty, this one says something: no history.
    if (!name.startsWith(PREFIX) || name === HISTORY_VARIABLE) continue
    const isOfService = OF_SERVICE.test(name) || ADDRESS_OF_SERVICE.test(value ?? '')
    if (value === '' || isOfService) delete environment[name]
  }
}

/** @throws `invalid_setting` for a variable that no command reads: a misspelt one would be ignored without a word */
export function refuseUnknownVariables(environment: Environment): void {
  const known = new Set(VARIABLES)
  const unknown = Object.keys(environment).filter((name) => name.startsWith(PREFIX) && !known.has(name))
  const [first] = unknown.sort()
  if (first !== undefined) throw unknownName(first, VARIABLES, { code: 'invalid_setting' })
  refuseOtherHistory(environment)
}

/** `--history` of a node is not the shell's: a node with the wrong variable would keep seven days without a word. */
function refuseOtherHistory({ [HISTORY_VARIABLE]: named = '' }: Environment): void {
  if (!/^\d+[smhd]$/.test(named)) return
  throw new CellError(
    'invalid_setting',
    `${HISTORY_VARIABLE} names the file of the shell's history. For how far back cells can be restored, set CELLSTORE_KEEP_HISTORY.`,
    { field: HISTORY_VARIABLE },
  )
}
