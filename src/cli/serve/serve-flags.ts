import { availableParallelism } from 'node:os'
import { type Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { DEFAULT_LEASE_MS } from '../../backup/fence/epoch-holder.ts'
import { DURABILITIES, type Durability } from '../../engine/cell-settings.ts'
import { ORIGIN } from '../../http/core/cors.ts'
import { SLOW_MS_DEFAULT } from '../../service/slow-statements.ts'
import {
  DEFAULT_DRILL_EVERY_MS,
  DEFAULT_INCREMENTAL_EVERY_MS,
  DEFAULT_MAX_LAG_MS,
  DEFAULT_SNAPSHOT_EVERY_MS,
} from '../../store/settings/settings.ts'
import {
  addPlanFlags,
  addStoreFlags,
  boundedOption,
  durationArgument,
  durationOption,
  intervalOption,
  numberOption,
  type StoreFlags,
  type Switchable,
  shortIntervalOption,
} from '../flags.ts'
import { limitOption } from './limits/limit-row.ts'
import { LIMIT_ROWS } from './limits/limits.ts'

/** The flags of `serve`. Durations are in milliseconds. `limitsFrom` reads those of the limits. */
export interface ServeFlags extends StoreFlags {
  host: string
  port: number
  /** Whether the console is served at /console. */
  console: boolean
  /** Pages of other origins that may use the interface. */
  corsOrigin?: string[] | undefined
  durability: Durability
  /** Processes that run the cells. 0: the node's own process runs them. */
  workers: number
  /** False: never. */
  snapshotEvery: Switchable
  incrementalEvery: Switchable
  drillEvery: Switchable
  /** When cells come back whose data is lost. */
  recovery: 'background' | 'first-use'
  /** False: what cells commit is not shipped. */
  maxLag: Switchable
  history: number
  drain: number
  /** How long another machine waits for a sign of this node. */
  lease: number
  takeOver?: true
  adopt?: true
  moveObjectStore?: true
  /** The PostgreSQL of the nodes that are one service. Undefined: this node is alone. */
  cluster?: string | undefined
  /** Where the other nodes reach this one: a URL without a path. */
  advertise?: string | undefined
  /** Of a node's beats: after so long without one, others take over what it has. */
  clusterTtl: number
  /** Milliseconds from which on a statement is logged. False: never. */
  slow: Switchable
  metricsHost: string
  /** Undefined: metrics are served to the owner alone. */
  metricsPort?: number | undefined
}

const PORT_MAX = 65_535
const CLUSTER_TTL_MS_DEFAULT = 6_000
const CLUSTER_TTL_MS_MIN = 2_000
const CLUSTER_TTL_MS_MAX = 300_000
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
    .option('--no-console', 'serve no page at /console')
    .addOption(
      new Option('--cors-origin <list>', 'origins let in').env('CELLSTORE_CORS_ORIGIN').argParser(originsOf),
    )
  addStoreFlags(command, { logLevel: 'info' })
  addPlanFlags(command)
    .addOption(
      new Option(
        '--durability <mode>',
        'full: a change is on disk before it is answered; relaxed: a power loss may drop the newest changes; remote: it is in the object store, too',
      )
        .env('CELLSTORE_DURABILITY')
        .choices(DURABILITIES)
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
      intervalOption(
        '--snapshot-every <duration>',
        'how often to take a snapshot of each cell that changed; or never',
      )
        .env('CELLSTORE_BACKUP_SNAPSHOT_EVERY')
        .default(DEFAULT_SNAPSHOT_EVERY_MS, '24h'),
    )
    .addOption(
      intervalOption(
        '--incremental-every <duration>',
        'how often to take an incremental backup of each cell that changed; or never',
      )
        .env('CELLSTORE_BACKUP_INCREMENTAL_EVERY')
        .default(DEFAULT_INCREMENTAL_EVERY_MS, '15m'),
    )
    .addOption(
      intervalOption(
        '--drill-every <duration>',
        'in which time to prove the newest backup of each cell by a restore; or never',
      )
        .env('CELLSTORE_DRILL_EVERY')
        .default(DEFAULT_DRILL_EVERY_MS, '7d'),
    )
    .addOption(
      new Option(
        '--recovery <mode>',
        'when lost cells are restored: all in the background, or each at its first use',
      )
        .env('CELLSTORE_RECOVERY')
        .choices(['background', 'first-use'])
        .default('background'),
    )
    .addOption(
      boundedOption(
        '--max-lag <duration>',
        'how long what a cell has committed may be on this machine only: from 1s to 1h; or off',
        { min: '1s', max: '1h' },
      )
        .env('CELLSTORE_MAX_LAG')
        .default(DEFAULT_MAX_LAG_MS, '10s'),
    )
    .addOption(
      durationOption('--drain <duration>', 'after SIGTERM, how long requests under way may still take')
        .env('CELLSTORE_DRAIN')
        .default(10_000, '10s'),
    )
  addFenceFlags(command)
  addClusterFlags(command)
  addObservationFlags(command)
  return addLimitFlags(command)
}

/** Which node may use the object store. What a start does once has no variable: it would be done at each start. */
function addFenceFlags(command: Command): void {
  command
    .addOption(
      durationOption(
        '--lease <duration>',
        'after a crash, how long another machine waits for a sign of this node before it uses the object store',
      )
        .env('CELLSTORE_LEASE')
        .default(DEFAULT_LEASE_MS, '90s'),
    )
    .option(
      '--take-over',
      'use the object store although another node may use it, which then stops; go on with the data in this directory',
    )
    .option(
      '--adopt',
      'if the object store has history that this directory did not write, go on from there, and set aside what the directory has',
    )
    .option('--move-object-store', 'let backups go to another object store than before')
}

/** Several nodes that are one service: docs/cluster.md. */
function addClusterFlags(command: Command): void {
  command
    .addOption(
      new Option(
        '--cluster <url>',
        'be one of several nodes, whose catalog is in a PostgreSQL: postgres://user:password@host:5432/database',
      ).env('CELLSTORE_CLUSTER'),
    )
    .addOption(
      new Option('--advertise <url>', 'where the other nodes of the cluster reach this one: http://host:port')
        .env('CELLSTORE_ADVERTISE')
        .argParser(addressOf),
    )
    .addOption(
      new Option(
        '--cluster-ttl <duration>',
        'how long a node of the cluster may be silent before others take over its cells: from 2s to 5m; the same for all nodes',
      )
        .argParser(clusterTtlOf)
        .env('CELLSTORE_CLUSTER_TTL')
        .default(CLUSTER_TTL_MS_DEFAULT, '6s'),
    )
}

/** What others can see of the node. */
function addObservationFlags(command: Command): void {
  command
    .addOption(
      shortIntervalOption(
        '--slow <duration>',
        'how long a statement runs before it is logged, without its values: 250ms, 2s; or never',
      )
        .env('CELLSTORE_SLOW')
        .default(SLOW_MS_DEFAULT, '500ms'),
    )
    .addOption(
      numberOption(
        '--metrics-port <number>',
        'serve metrics for Prometheus on this port, to anyone who can reach it; 0 takes any free port (default: no port)',
        0,
        PORT_MAX,
      ).env('CELLSTORE_METRICS_PORT'),
    )
    .addOption(
      new Option('--metrics-host <address>', 'the address to serve metrics on')
        .env('CELLSTORE_METRICS_HOST')
        .default('127.0.0.1'),
    )
}

/** @throws `InvalidArgumentError` */
function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href
  if (isOrigin && !isAnyAddress(url.hostname)) return url.origin
  throw new InvalidArgumentError(
    'It must be a URL at which the other nodes reach this one, without a path: http://10.0.0.1:8787.',
  )
}

/** Whether it stands for all addresses of a machine: to listen at, and not to reach. */
export function isAnyAddress(host: string): boolean {
  return host === '' || host === '0.0.0.0' || host === '::' || host === '[::]'
}

/** @throws `InvalidArgumentError` */
function clusterTtlOf(text: string): number {
  const ms = durationArgument(text)
  if (ms >= CLUSTER_TTL_MS_MIN && ms <= CLUSTER_TTL_MS_MAX) return ms
  throw new InvalidArgumentError('It must be from 2s to 5m.')
}

/** @throws `InvalidArgumentError` */
function originsOf(text: string): string[] {
  const origins = text.split(',').map((origin) => origin.trim())
  if (origins.every((origin) => ORIGIN.test(origin))) return origins
  throw new InvalidArgumentError('It must be *, or origins such as https://studio.example, without a path.')
}

const MORE = `
Bytes may have a unit: 65536, 64KiB, 2MiB, 1GiB. Durations have one: 40ms, 30s,
15m. docs/limits.md says what happens over each limit.
`

/** Adds a flag for each of {@link LIMIT_ROWS}, and `--help-limits`, which lists them: in `--help` they would fill a screen. */
function addLimitFlags(command: Command): Command {
  const options = LIMIT_ROWS.map((row) => limitOption(row).helpGroup('Limits:').hideHelp())
  for (const option of options) command.addOption(option)
  return command
    .addOption(new Option('--help-limits', 'list the limits, with their flags and variables'))
    .on('option:help-limits', () => {
      showHelpOf(options, command)
      // As after --help: the program ends, and nothing went wrong.
      throw new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)')
    })
}

function showHelpOf(options: Option[], command: Command): void {
  const { writeOut, getOutHelpWidth, getOutHasColors } = command.configureOutput()
  const help = command.createHelp()
  help.visibleOptions = () => options
  help.prepareContext({ helpWidth: getOutHelpWidth?.() ?? 80, outputHasColors: getOutHasColors?.() ?? false })
  writeOut?.(help.formatHelp(command, help) + MORE)
}
