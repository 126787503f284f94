import { type AddressInfo, isIP, isIPv6 } from 'node:net'
import packageJson from '../../../package.json' with { type: 'json' }
import type { Clock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { isLoopback } from '../../base/machine/loopback.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StatusDocument } from '../../http/answers/status-answers.ts'
import { type AccessLogger, DEFAULT_HTTP_LIMITS } from '../../http/handler-options.ts'
import { DEFAULT_MEMORY_LIMITS } from '../../http/quotas/memory-budgets.ts'
import { DEFAULT_STREAM_LIMITS } from '../../http/quotas/stream-limits.ts'
import { METRICS } from '../../http/routes/node/metrics-audience.ts'
import type { NodeView } from '../../http/routes/node/node-view.ts'
import { RequestCounts } from '../../http/routes/node/request-counts.ts'
import { encodeStatus } from '../../http/routes/node/status-document.ts'
import { consoleListener } from '../../http/server/console-files.ts'
import { NodeServer, type NodeServerOptions } from '../../http/server/node-server.ts'
import type { StoreCore } from '../../store/store-core.ts'
import { objectStoreOf } from '../flags.ts'
import { type OwnerServer, type OwnerServerOptions, serveOwner } from '../owner/owner-server.ts'
import { publishedSocket, takeSocketPlace } from '../owner/socket-place.ts'
import { announce } from './announcement.ts'
import { issueFirstKey } from './first-start.ts'
import { limitsFrom, type NodeLimits } from './limits/limits.ts'
import type { ServeFlags } from './serve-flags.ts'
import { openServedStore, type ServedStore } from './served-store.ts'

interface NodeComponents {
  clock: Clock
  log: Log
  /** Gets a line for each request at the level `debug`. */
  accessLog?: AccessLogger | undefined
  rootKey: string | undefined
  /** Standard output: called once, before anything is answered. */
  print(text: string): void
}

/** A store that is served: over HTTP to the holders of keys, and over its socket to its owner. */
export class RunningNode {
  readonly #store: ServedStore
  #server: NodeServer | undefined
  #metrics: NodeServer | undefined
  #owner: OwnerServer | undefined

  private constructor(store: ServedStore) {
    this.#store = store
  }

  /** @throws what opening the store throws, and `invalid_setting` for a port or a host that can't be had */
  static async start(flags: ServeFlags, components: NodeComponents): Promise<RunningNode> {
    const { clock, log, accessLog, rootKey, print } = components
    const paths = new StorePaths(flags.dataDir)
    const left = publishedSocket(paths)
    const objectStore = objectStoreOf(flags)
    const limits = limitsFrom({ ...flags })
    const store = await openServedStore(flags, { objectStore, limits, clock, log }).catch((error) => {
      throw isCellError(error, 'object_store_unavailable') ? nobodyKnows(error, flags.dataDir) : error
    })
    const { core, service } = store
    const node = new RunningNode(store)
    const observer = new NodeObserver(store)
    const { counts } = observer
    // The store's own log also keeps the newest failures.
    const logger = core.settings.log
    try {
      const accessLogger = flags.logLevel === 'debug' ? accessLog : undefined
      const parts = { logger, accessLogger, service, counts, node: observer }
      const console = flags.console ? consoleListener() : undefined
      const { corsOrigin: corsOrigins } = flags
      const { cluster } = store
      const server = new NodeServer(core, serverOptions(limits, { ...parts, console, corsOrigins, cluster }))
      observer.server = server
      node.#server = server
      // Before the others know this node, one of them looks whether it answers. Until it has joined, it refuses all requests.
      const joined = cluster && (await listen(server, flags.host, flags.port))
      if (joined !== undefined) await cluster?.join(flags.advertise ?? joined)
      const firstKey = await issueFirstKey(core, rootKey, flags.objectStoreWait, log)
      node.#owner = await startOwnerServer(core, paths, left, parts)
      const metricsAddress = await node.#serveMetrics(flags, observer)
      const address = joined ?? (await listen(server, flags.host, flags.port))
      // From here on nothing waits: connections may come in, and none is read before this turn of the event loop is over.
      print(
        announce(
          {
            address,
            console: flags.console,
            store: core,
            dataDir: paths.root,
            objectStore,
            firstKey,
          },
          flags.json === true,
        ),
      )
      if (node.#owner !== undefined) core.publishSocket(node.#owner.path)
      if (firstKey !== undefined) await core.durably(() => core.firstKey.shown())
      logServing(log, address, flags.host)
      if (metricsAddress !== undefined) log.info({ address: metricsAddress }, 'metrics are served')
      return node
    } catch (error) {
      await node.stop({ drainMs: flags.drain })
      throw error
    }
  }

  /** Resolves if another node takes the object store: then this one must stop. */
  takenOver(): Promise<CellError> {
    const { guard } = this.#store.core
    if (guard?.failure !== undefined) return Promise.resolve(guard.failure)
    return new Promise((resolve) => guard?.lost.listen(resolve))
  }

  /** Resolves if somebody asks this node to leave its cluster. */
  leaveAsked(): Promise<void> {
    const { cluster } = this.#store
    return new Promise((resolve) => {
      if (cluster !== undefined) cluster.leaveAsked = resolve
    })
  }

  /** Hands over its cells if it is one of several nodes, takes no new request, lets those under way finish, and closes the store. */
  async stop({ drainMs }: { drainMs: number }): Promise<void> {
    const { core, cluster } = this.#store
    core.publishSocket(null)
    // Meanwhile this node passes requests on to those that have its cells by now.
    await cluster?.handOver(deadlineOf(core.clock, drainMs))
    const servers = [this.#server, this.#owner, this.#metrics]
    await Promise.all(servers.map((server) => server?.stop({ drainMs })))
    await this.#store.close(drainMs)
  }

  /** @returns the address; undefined without a port @throws `invalid_setting` for a port or a host that can't be had */
  async #serveMetrics(
    { metricsHost, metricsPort }: ServeFlags,
    observer: NodeObserver,
  ): Promise<string | undefined> {
    if (metricsPort === undefined) return undefined
    const { core, service } = this.#store
    const parts = { logger: core.settings.log, service, node: observer, audience: METRICS }
    this.#metrics = new NodeServer(core, parts)
    return `${await listen(this.#metrics, metricsHost, metricsPort)}/metrics`
  }
}

function deadlineOf(clock: Clock, ms: number): AbortSignal {
  const abort = new AbortController()
  clock.setTimer(() => abort.abort(), ms)
  return abort.signal
}

/** Of the server for accounts: what the flags say, and defaults. */
export function serverOptions(limits: NodeLimits, parts: NodeServerOptions): NodeServerOptions {
  const { requestDeadlineMs, ...http } = limits.http
  const { perSecond } = limits.rate
  const result = { ...DEFAULT_HTTP_LIMITS.result, ...limits.result }
  const { bodiesTotal, unsentTotal } = { ...DEFAULT_MEMORY_LIMITS, ...limits.memory }
  const { bodyBytesMax } = { ...DEFAULT_HTTP_LIMITS, ...http }
  const { total, perAccount } = { ...DEFAULT_STREAM_LIMITS, ...limits.streams }
  return {
    ...parts,
    limits: {
      ...http,
      result,
      memory: {
        bodiesTotal,
        bodiesPerAccount: accountPart(bodiesTotal, bodyBytesMax),
        unsentTotal,
        unsentPerAccount: accountPart(unsentTotal, result.bytesMax),
      },
      streams: { total: Math.max(total, 10 * perAccount), perAccount },
    },
    requestDeadlineMs,
    rate: perSecond === undefined ? undefined : { perSecond },
    connections: limits.connections,
  }
}

/** Of the memory of all accounts, what one may use while it is alone. The largest single thing must fit. */
function accountPart(total: number, largest: number): number {
  return Math.min(total, Math.max(Math.floor(total / 4), largest))
}

/** Only a store without a catalog needs its object store to start (invariant 14). */
function nobodyKnows({ message, cause }: CellError, dataDir: string): CellError {
  return new CellError(
    'object_store_unavailable',
    `There is no store in ${dataDir}, and the object store does not answer. It may hold the store, so nothing was made. ${message}`,
    { cause },
  )
}

function logServing(log: Log, address: string, host: string): void {
  if (!isLocal(host)) {
    log.warn(
      { host },
      'other machines can connect, and keys travel unencrypted: put a proxy with TLS in front',
    )
  }
  log.info({ address }, 'serving')
}

/** A node without its socket still serves, but takes no commands while it runs. */
async function startOwnerServer(
  store: StoreCore,
  paths: StorePaths,
  left: string | undefined,
  options: OwnerServerOptions,
): Promise<OwnerServer | undefined> {
  try {
    return await serveOwner(store, takeSocketPlace(paths, left), options)
  } catch (err) {
    options.logger.warn({ err }, 'no socket for commands: they work only while the node is stopped')
    return undefined
  }
}

/**
 * Starts to listen.
 *
 * @returns the URL, with the port that the system chose if that was 0
 * @throws `invalid_setting`, which names the port or the host
 */
async function listen(server: NodeServer, host: string, port: number): Promise<string> {
  // Node.js would take it as every address of the machine.
  if (host === '')
    throw new CellError(
      'invalid_setting',
      'The host is empty. It must be an address to listen on, such as 127.0.0.1.',
    )
  try {
    const address = (await server.start({ host, port })) as AddressInfo
    return `http://${isIPv6(host) ? `[${host}]` : host}:${address.port}`
  } catch (error) {
    throw explained(error, host, port)
  }
}

/** Whether only this machine can connect. */
function isLocal(host: string): boolean {
  return isIP(host) === 0 ? host === 'localhost' : isLoopback(host)
}

function explained(error: unknown, host: string, port: number): unknown {
  const why = whyNot(error instanceof Error && 'code' in error ? error.code : undefined, host, port)
  return why === undefined ? error : new CellError('invalid_setting', why, { cause: error })
}

function whyNot(errno: unknown, host: string, port: number): string | undefined {
  switch (errno) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is in use. Choose another one with --port or CELLSTORE_PORT; 0 takes any free port.`
    case 'EACCES':
      return `This user may not use port ${port}. Choose one from 1024 up with --port or CELLSTORE_PORT.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${host} is not an address of this machine. Choose another one with --host or CELLSTORE_HOST.`
    default:
      return undefined
  }
}

/** The files of all cells are looked at once in this time, if anybody asks for metrics. */
const CENSUS_AGE_MS = 60_000

/** What a node tells of itself. */
class NodeObserver implements NodeView {
  /** Of all servers of the node but that of the metrics. */
  readonly counts = new RequestCounts()
  readonly #store: ServedStore
  /** Where accounts are served; undefined until it is there. */
  server: Pick<NodeServer, 'memory'> | undefined

  constructor(store: ServedStore) {
    this.#store = store
  }

  get cluster(): NodeView['cluster'] {
    return this.#store.cluster
  }

  async status(censusAgeMs = 0): Promise<StatusDocument> {
    const { core, metrics } = this.#store
    return encodeStatus(core, metrics(), await core.census.take(censusAgeMs), this.counts)
  }

  async metrics(): Promise<string> {
    const { core, metrics } = this.#store
    const census = await core.census.take(CENSUS_AGE_MS)
    // A node that is never asked does without it.
    const { prometheusText } = await import('../../metrics/prometheus.ts')
    return await prometheusText({
      now: core.clock.now(),
      version: packageJson.version,
      store: metrics(),
      census,
      requests: this.counts,
      cluster: this.#store.cluster,
      memory: this.server?.memory ?? NO_MEMORY,
    })
  }
}

const NONE = { used: 0, total: 0 }
const NO_MEMORY = { bodies: NONE, unsent: NONE }
