import { availableParallelism } from 'node:os'
import { type Command, Option } from 'commander'
import type { Durability } from '../../engine/cell-settings.ts'
import { addStoreFlags, durationOption, numberOption, type StoreFlags } from '../flags.ts'
import { addLimitFlags } from './limits/limit-flags.ts'

/** The flags of `serve`. Durations are in milliseconds. `limitsFrom` reads those of the limits. */
export interface ServeFlags extends StoreFlags {
  host: string
  port: number
  durability: Durability
  /** Processes that run the cells. 0: the node's own process runs them. */
  workers: number
  snapshotEvery?: number
  incrementalEvery?: number
  backupKeep?: number
  drain: number
}

const PORT_MAX = 65_535
const WORKERS_MAX = 64

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
  command
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
      durationOption(
        '--drain <duration>',
        'after SIGTERM, how long requests under way may still take',
      ).default(10_000, '10s'),
    )
  return addLimitFlags(command)
}
