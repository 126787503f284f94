import { type Command, Option } from 'commander'
import type { Durability } from '../../engine/cell-database.ts'
import { addStoreFlags, durationOption, numberOption, type StoreFlags } from '../flags.ts'

/** What a node can be told. Durations are in milliseconds. */
export interface ServeFlags extends StoreFlags {
  host: string
  port: number
  durability: Durability
  snapshotEvery?: number
  incrementalEvery?: number
  backupKeep?: number
  drain: number
}

const PORT_MAX = 65_535

/** Adds the flags of {@link ServeFlags}, and the variables behind them. */
export function addServeFlags(command: Command): Command {
  command
    .addOption(
      new Option('--host <address>', 'the address to listen on').env('CELLSTORE_HOST').default('127.0.0.1'),
    )
    .addOption(
      numberOption('--port <number>', 'the port to listen on; 0 takes any that is free', 0, PORT_MAX)
        .env('CELLSTORE_PORT')
        .default(8_787),
    )
  addStoreFlags(command, { logLevel: 'info' })
  return command
    .addOption(
      new Option(
        '--durability <mode>',
        'full: a change is on disk when it is answered; relaxed: a power loss may drop the newest',
      )
        .env('CELLSTORE_DURABILITY')
        .choices(['full', 'relaxed'])
        .default('full'),
    )
    .addOption(
      durationOption(
        '--snapshot-every <duration>',
        'automatic snapshots of each cell that changed (off by default)',
      ).env('CELLSTORE_BACKUP_SNAPSHOT_EVERY'),
    )
    .addOption(
      durationOption(
        '--incremental-every <duration>',
        'automatic incrementals of each cell that changed (off by default)',
      ).env('CELLSTORE_BACKUP_INCREMENTAL_EVERY'),
    )
    .addOption(
      numberOption(
        '--backup-keep <count>',
        'restorable versions of a cell to keep, older ones are removed (all by default)',
        1,
        Number.MAX_SAFE_INTEGER,
      ).env('CELLSTORE_BACKUP_KEEP'),
    )
    .addOption(
      durationOption(
        '--drain <duration>',
        'how long requests under way may still take after SIGTERM',
      ).default(10_000, '10s'),
    )
}
