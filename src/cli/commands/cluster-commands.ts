import { type Command, Option } from 'commander'
import { type Clock, delay, systemClock } from '../../base/clock.ts'
import { counted } from '../../base/counted.ts'
import type { ClusterStatus, NodeStatus } from '../../cluster/cluster-status.ts'
import type { RebuiltCluster } from '../../cluster/rebuild/rebuild-cluster.ts'
import { CellError } from '../../errors.ts'
import { addStoreFlags, jsonOption, type StoreFlags } from '../flags.ts'
import { createLog, LOG_LEVELS, type LogLevel } from '../log.ts'
import type { OwnerClient } from '../owner/owner-client.ts'
import { examples, formatDuration, formatTable, printResult } from '../terminal/output.ts'

/** Between two looks at how far the nodes have come. */
const LOOK_EVERY_MS = 500
/** If nothing moves for so long, nothing will. */
const STALLED_MS = 60_000

export function addClusterCommands(program: Command): void {
  const cluster = program
    .command('cluster')
    .summary('show, empty, level and end the nodes of a service')
    .description(
      'What concerns several nodes that are one service (docs/cluster.md). Each command but rebuild asks the node that runs on --data-dir, which asks the others.',
    )
  addStatus(cluster)
  addDrain(cluster)
  addBalance(cluster)
  addLeave(cluster)
  addRebuild(cluster)
}

function addStatus(cluster: Command): void {
  const command = cluster
    .command('status')
    .summary('show the nodes, who has what, and what moves')
    .description(
      'Shows the nodes with their ranges of cells, for how long they may still answer, how far their catalogs and backups are behind, and which nodes were taken over of late.',
    )
    .addHelpText(
      'after',
      examples('cellstore cluster status', "cellstore cluster status --json | jq '.nodes[].ranges'"),
    )
  addStoreFlags(command).action((flags: StoreFlags) =>
    withNode(flags, async (client) => printResult(await client.cluster(), flags.json, showCluster)),
  )
}

function addDrain(cluster: Command): void {
  const command = cluster
    .command('drain')
    .summary('empty a node')
    .description(
      'Moves all cells of a node to the others, and waits for the end. The node goes on to pass requests on, and gets no cells until it is started again, or until `cluster balance`.',
    )
    .argument('<node>', "the node's id, the beginning of it, or its address")
    .addHelpText('after', examples('cellstore cluster drain http://10.0.0.2:8787'))
  addStoreFlags(command).action((node: string, flags: StoreFlags) =>
    withNode(flags, async (client) => {
      await client.drainNode({ node })
      const isOf = ({ id, address }: NodeStatus) => id.startsWith(node) || address === node
      const status = await untilSettled(client, systemClock, ({ nodes }) =>
        nodes.filter(isOf).every(({ ranges }) => ranges === 0),
      )
      printResult(status, flags.json, showCluster)
    }),
  )
}

function addBalance(cluster: Command): void {
  const command = cluster
    .command('balance')
    .summary('level the nodes now')
    .description(
      'Moves cells so that all nodes have about as many busy ones, and waits for the end. The nodes do this on their own, too, but slowly. Nodes that were drained take part again.',
    )
    .addHelpText('after', examples('cellstore cluster balance'))
  addStoreFlags(command).action((flags: StoreFlags) =>
    withNode(flags, async (client) => {
      await client.balanceNodes()
      const again = (status: ClusterStatus) => (status.level ? undefined : client.balanceNodes())
      const status = await untilSettled(client, systemClock, ({ level }) => level, again)
      printResult(status, flags.json, showCluster)
    }),
  )
}

function addLeave(cluster: Command): void {
  const command = cluster
    .command('leave')
    .summary('stop this node, and hand over its cells before')
    .description(
      'Stops the node that runs on --data-dir, as SIGTERM does: its cells go to the others before it ends. With --last, the store needs no cluster any more: start the node without --cluster.',
    )
    .option('--last', 'this is the last node; its store is that of a node which is alone from now on')
    .addHelpText('after', examples('cellstore cluster leave', 'cellstore cluster leave --last'))
  addStoreFlags(command).action(({ last, ...flags }: { last?: true } & StoreFlags) =>
    withNode(flags, async (client) => {
      await client.leaveCluster({ last })
      printResult({ left: true }, flags.json, () =>
        last === true
          ? 'the node stops; start it without --cluster'
          : 'the node hands over its cells, and stops',
      )
    }),
  )
}

interface RebuildFlags {
  cluster: string
  objectStore: string
  dataDir?: string
  logLevel: LogLevel
  json?: true
}

function addRebuild(cluster: Command): void {
  cluster
    .command('rebuild')
    .summary('make a lost PostgreSQL anew from the bucket')
    .description(
      'Writes the catalog (accounts, keys, names, cells) into an empty PostgreSQL: the newest one that a node has stored in the object store. Run it while no node runs, and start the nodes then.',
    )
    .addOption(
      new Option('--cluster <url>', 'the new PostgreSQL: postgres://user:password@host:5432/database')
        .env('CELLSTORE_CLUSTER')
        .makeOptionMandatory(),
    )
    .addOption(
      new Option('--object-store <url>', 'that of the nodes')
        .env('CELLSTORE_OBJECT_STORE')
        .makeOptionMandatory(),
    )
    .option(
      '--data-dir <folder>',
      "the directory of a node on this machine: its catalog is taken if it is newer than the object store's",
    )
    .addOption(
      new Option('--log-level <level>', 'how much to log to standard error')
        .env('CELLSTORE_LOG_LEVEL')
        .choices(LOG_LEVELS)
        .default('warn'),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('cellstore cluster rebuild', 'cellstore cluster rebuild --data-dir /var/lib/cells'),
    )
    .action(async (flags: RebuildFlags) => {
      printResult(await rebuild(flags), flags.json, ({ catalog_version, found_in, assignment }) =>
        [
          `PostgreSQL has the catalog at change ${catalog_version}, from ${found_in || 'the object store'}; assignment ${assignment}`,
          'start the nodes',
        ].join('\n'),
      )
    })
}

/** What is slow to load is loaded here, so that help comes at once. */
async function rebuild({
  cluster: url,
  objectStore,
  dataDir,
  logLevel,
}: RebuildFlags): Promise<RebuiltCluster> {
  const { openObjectStore } = await import('../../backup/object-store/open-object-store.ts')
  const { rebuildCluster } = await import('../../cluster/rebuild/rebuild-cluster.ts')
  const clock = systemClock
  const bucket = openObjectStore(objectStore, { clock, dataDir, checksFolder: true })
  try {
    return await rebuildCluster({ url, bucket, dataDir, clock, log: createLog(logLevel, process.stderr) })
  } finally {
    await bucket.close()
  }
}

async function withNode(flags: StoreFlags, run: (client: OwnerClient) => Promise<void>): Promise<void> {
  const { connectNode } = await import('../owner/connect.ts')
  const client = await connectNode(flags, systemClock)
  try {
    await run(client)
  } finally {
    await client.close()
  }
}

/** @throws `cluster_unavailable` if nothing moves any more before it is done */
async function untilSettled(
  client: OwnerClient,
  clock: Clock,
  isDone: (status: ClusterStatus) => boolean,
  again: (status: ClusterStatus) => Promise<unknown> | undefined = () => undefined,
): Promise<ClusterStatus> {
  let before = -1
  for (let movedAt = clock.monotonic(); ; ) {
    const status = await client.cluster()
    if (isDone(status)) return status
    if (status.assignment !== before) movedAt = clock.monotonic()
    before = status.assignment
    if (clock.monotonic() - movedAt > STALLED_MS) {
      throw new CellError(
        'cluster_unavailable',
        `No cells have moved for ${formatDuration(STALLED_MS)}. See \`cellstore cluster status\` and the logs of the nodes.`,
      )
    }
    await delay(clock, LOOK_EVERY_MS)
    await again(status)
  }
}

function showCluster(status: ClusterStatus): string {
  const { nodes, assignment, catalog_version, postgres_version, level, taken_over } = status
  const postgres =
    postgres_version === null
      ? 'POSTGRESQL DOES NOT ANSWER: no new cells, keys, moves and take-overs until it does'
      : `catalog at change ${catalog_version}`
  const rows = nodes.map((node) => [
    node.id === status.node ? `${node.id} *` : node.id,
    node.address,
    node.state,
    String(node.ranges),
    String(node.busy_cells),
    ...reportCells(node),
    String(node.behind),
    `${(node.silent_ms / 1_000).toFixed(1)}s`,
  ])
  const headings = [
    'NODE',
    'ADDRESS',
    'STATE',
    'RANGES',
    'BUSY CELLS',
    'MOVING',
    'LEASE',
    'BACKUP LAG',
    'BEHIND',
    'SILENT',
  ]
  const lost = taken_over.map(
    ({ node, at, lost_from, lost_until }) =>
      `${node} was taken over at ${at}; what it acknowledged ${lost_from === null ? 'shortly before' : `between ${lost_from} and`} ${lost_until} is lost, except in the durability remote`,
  )
  return [
    `${counted(nodes.length, 'node')}, assignment ${assignment}, ${level ? 'level' : 'not level'}; ${postgres}`,
    formatTable(headings, rows),
    ...lost,
  ].join('\n')
}

function reportCells({ report }: NodeStatus): [moving: string, lease: string, lag: string] {
  if (report === null) return ['?', 'no answer', '?']
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)}s`
  const { ranges_moving, lease_ms, backup_lag_ms } = report
  return [
    String(ranges_moving),
    lease_ms > 0 ? seconds(lease_ms) : 'NONE',
    backup_lag_ms === null ? '-' : seconds(backup_lag_ms),
  ]
}
