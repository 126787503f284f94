import { availableParallelism } from 'node:os'
import { type Command, Option } from 'commander'
import type { Durability } from '../../engine/cell-settings.ts'
import { BACKUPS_AT_ONCE, RESTORES_AT_ONCE } from '../../store/settings.ts'
import { DEFAULT_WORKER_LIMITS } from '../../workers/node/kill-reason.ts'
import { addStoreFlags, durationOption, numberOption, type StoreFlags } from '../flags.ts'

/** The flags of `serve`. Durations are in milliseconds. */
export interface ServeFlags extends StoreFlags {
  host: string
  port: number
  durability: Durability
  /** Processes that run the cells. 0: the node's own process runs them. */
  workers: number
  /** In MiB. */
  workerMemory: number
  statementTimeout: number
  /** Requests per second that each account may make. */
  rate?: number
  connections?: number
  connectionsPerAddress?: number
  /** Bounds on what each account has in the catalog. */
  accountCells: number
  accountKeys: number
  accountCreations: number
  /** Bounds on the backups that each account requests. */
  accountBackups: number
  accountBackupRate: number
  snapshotEvery?: number
  incrementalEvery?: number
  backupKeep?: number
  backupsAtOnce: number
  restoresAtOnce: number
  drain: number
}

const PORT_MAX = 65_535
const RATE_MAX = 1_000_000
const CONNECTIONS_MAX = 1_000_000
const WORKERS_MAX = 64
const MIB = 1_048_576
/** In MiB. */
const WORKER_MEMORY_MIN = 256
const WORKER_MEMORY_MAX = 1_048_576
const ACCOUNT_CELLS_DEFAULT = 100_000
const ACCOUNT_KEYS_DEFAULT = 1_000
const ACCOUNT_CREATIONS_DEFAULT = 200
const ACCOUNT_BACKUPS_DEFAULT = 4
const AT_ONCE_MAX = 64
/** In MiB per second. */
const ACCOUNT_BACKUP_RATE_DEFAULT = 32
const STATEMENT_MS_DEFAULT = 5_000

/** Adds the flags of {@link ServeFlags}, and the variables behind them. */
export function addServeFlags(command: Command): Command {
  command
    .addOption(
      new Option('--host <address>', 'the address to listen on').env('CELLSTORE_HOST').default('127.0.0.1'),
    )
    .addOption(
      numberOption('--port <number>', 'the port to listen on; 0 takes any free port', 0, PORT_MAX)
        .env('CELLSTORE_PORT')
        .default(8_787),
    )
  addStoreFlags(command, { logLevel: 'info' })
  return command
    .addOption(
      new Option(
        '--durability <mode>',
        'full: a change is on disk before it is answered; relaxed: a power loss may drop the newest changes',
      )
        .env('CELLSTORE_DURABILITY')
        .choices(['full', 'relaxed'])
        .default('full'),
    )
    .addOption(
      numberOption(
        '--workers <count>',
        'processes that run the cells, so that no statement can block or crash the node; 0 runs all in one process',
        0,
        WORKERS_MAX,
      )
        .env('CELLSTORE_WORKERS')
        .default(availableParallelism(), 'one per core'),
    )
    .addOption(
      numberOption(
        '--worker-memory <mebibytes>',
        'memory that each worker may use; a statement that needs more is ended',
        WORKER_MEMORY_MIN,
        WORKER_MEMORY_MAX,
      )
        .env('CELLSTORE_WORKER_MEMORY')
        .default(DEFAULT_WORKER_LIMITS.memoryMax / MIB),
    )
    .addOption(
      durationOption('--statement-timeout <duration>', 'how long a statement may run')
        .env('CELLSTORE_STATEMENT_TIMEOUT')
        .default(STATEMENT_MS_DEFAULT, '5s'),
    )
    .addOption(
      numberOption(
        '--rate <requests>',
        'requests that each account may make per second, or at once after a pause (default: no limit)',
        1,
        RATE_MAX,
      ).env('CELLSTORE_RATE'),
    )
    .addOption(
      numberOption(
        '--connections <count>',
        'connections that may be open at once (default: as many as the descriptor limit allows, at most 10,000)',
        1,
        CONNECTIONS_MAX,
      ).env('CELLSTORE_CONNECTIONS'),
    )
    .addOption(
      numberOption(
        '--connections-per-address <count>',
        'connections that one address may have (default: half of all, and any number from this machine)',
        1,
        CONNECTIONS_MAX,
      ).env('CELLSTORE_CONNECTIONS_PER_ADDRESS'),
    )
    .addOption(
      numberOption('--account-cells <count>', 'cells that each account may have', 1, Number.MAX_SAFE_INTEGER)
        .env('CELLSTORE_ACCOUNT_CELLS')
        .default(ACCOUNT_CELLS_DEFAULT),
    )
    .addOption(
      numberOption(
        '--account-keys <count>',
        'API keys that each account may have',
        1,
        Number.MAX_SAFE_INTEGER,
      )
        .env('CELLSTORE_ACCOUNT_KEYS')
        .default(ACCOUNT_KEYS_DEFAULT),
    )
    .addOption(
      numberOption(
        '--account-creations <count>',
        'cells and API keys that each account may create per second; ten times as many at once after a pause',
        1,
        RATE_MAX,
      )
        .env('CELLSTORE_ACCOUNT_CREATIONS')
        .default(ACCOUNT_CREATIONS_DEFAULT),
    )
    .addOption(
      numberOption(
        '--account-backups <count>',
        'backups that each account may request at a time',
        1,
        RATE_MAX,
      )
        .env('CELLSTORE_ACCOUNT_BACKUPS')
        .default(ACCOUNT_BACKUPS_DEFAULT),
    )
    .addOption(
      numberOption(
        '--account-backup-rate <mebibytes>',
        'bytes per second of the backups that each account requests; those of a minute at once after a pause',
        1,
        RATE_MAX,
      )
        .env('CELLSTORE_ACCOUNT_BACKUP_RATE')
        .default(ACCOUNT_BACKUP_RATE_DEFAULT),
    )
    .addOption(
      durationOption(
        '--snapshot-every <duration>',
        'how often to take a snapshot of each cell that changed (default: never)',
      ).env('CELLSTORE_BACKUP_SNAPSHOT_EVERY'),
    )
    .addOption(
      durationOption(
        '--incremental-every <duration>',
        'how often to take an incremental backup of each cell that changed (default: never)',
      ).env('CELLSTORE_BACKUP_INCREMENTAL_EVERY'),
    )
    .addOption(
      numberOption(
        '--backup-keep <count>',
        'versions of each cell to keep; older ones are removed (default: all are kept)',
        1,
        Number.MAX_SAFE_INTEGER,
      ).env('CELLSTORE_BACKUP_KEEP'),
    )
    .addOption(
      numberOption('--backups-at-once <count>', 'backups that run at a time; others wait', 1, AT_ONCE_MAX)
        .env('CELLSTORE_BACKUPS_AT_ONCE')
        .default(BACKUPS_AT_ONCE),
    )
    .addOption(
      numberOption('--restores-at-once <count>', 'restores that run at a time; others wait', 1, AT_ONCE_MAX)
        .env('CELLSTORE_RESTORES_AT_ONCE')
        .default(RESTORES_AT_ONCE),
    )
    .addOption(
      durationOption(
        '--drain <duration>',
        'after SIGTERM, how long requests under way may still take',
      ).default(10_000, '10s'),
    )
}
