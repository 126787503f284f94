import os from 'node:os'
import { scopedTo } from '../backup/fence/scoped-object-store.ts'
import { placeHere } from '../backup/fence/holder-record.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { type Clock, delay, type Timer, within } from '../base/clock.ts'
import { StorePaths } from '../base/files/store-paths.ts'
import type { Log } from '../base/log.ts'
import { type Assignment, firstAssignment, RANGES } from '../catalog/assignment/assignment.ts'
import type { SharedRow } from '../catalog/shared-rows.ts'
import { CellError, isCellError } from '../errors.ts'
import type { ClusterPeers, InternalRoutes, Peer } from '../http/forwarding/cluster-peers.ts'
import type { ClusterCommands } from '../http/routes/node/node-view.ts'
import type { CellHost } from '../store/cell-host.ts'
import type { StoreCore } from '../store/store-core.ts'
import { AssignmentLog } from '../store/start/assignment-log.ts'
import { CatalogAssignment } from './assignment/catalog-assignment.ts'
import { ClusterOwnership } from './assignment/cluster-ownership.ts'
import { Handovers } from './assignment/handovers.ts'
import { Mover } from './assignment/mover.ts'
import { levelingMove } from './assignment/balance.ts'
import type { ClusterStatus, NodeReport, TakenNode } from './cluster-status.ts'
import { Caretaker } from './membership/caretaker.ts'
import { ForeignPrefix } from './membership/foreign-prefix.ts'
import { Lease, type LeaseTimes, leaseTimes } from './membership/lease.ts'
import { Membership } from './membership/membership.ts'
import type { HeadSeen, NodeRow } from './membership/node-table.ts'
import { isRevocation, RevocationBarrier } from './membership/revocation-barrier.ts'
import { TakeOver } from './membership/take-over.ts'
import { type PeerCalls, Peers, type PingAnswer } from './peers.ts'
import { dissolve, readClusterRow } from './postgres/cluster-row.ts'
import { Database } from './postgres/database.ts'
import { PostgresNodeTable } from './postgres/node-table.ts'
import { PostgresCatalog } from './postgres/postgres-catalog.ts'
import { type PreparedDirectory, prepareDirectory } from './start/prepare-directory.ts'
import { writeNodeIdentity } from '../store/start/node-identity.ts'

export interface ClusterSettings {
  /** PostgreSQL's. */
  url: string
  /** Milliseconds. */
  ttlMs: number
}

export interface ClusterNodeParts {
  settings: ClusterSettings
  dataDir: string
  /** As it is, without a prefix or a guard. */
  bucket: ObjectStore
  clock: Clock
  random: () => number
  log: Log
  /** @param secret the same on all nodes */
  callsOf(secret: string): PeerCalls
}

/** How often a node looks whether it has to give ranges away. */
const LEVEL_EVERY_MS = 5_000
/** Counts of busy cells follow a move slowly: so it waits in between, unless a node has nothing at all. */
const LEVEL_PAUSE_MS = 60_000
/** A request waits no longer for the catalog. */
const CATCH_UP_MS = 1_000
/** A restarted PostgreSQL waits for all nodes, and so do starts. */
const RECONCILED_MS = 60_000
const BUSY_LOOK_MS = 5_000
const BUSY_MAX = 10_000
const TAKEN_KEPT = 20
const LEAVE_AFTER_MS = 100

/** What the parts of {@link ClusterNode} are once its store is open. */
interface Attached {
  core: StoreCore
  catalog: PostgresCatalog
  published: CatalogAssignment
  mover: Mover
  handovers: Handovers
  /** How far backups are behind. Milliseconds. */
  lagMs(): number | undefined
}

/**
 * A node of a cluster, put together:
 *
 *     prepare ──▶ the store is opened ──attach──▶ it listens ──join──▶ serves ──handOver──▶ empty ──close──▶ ended
 */
export class ClusterNode implements ClusterPeers, ClusterCommands {
  readonly ownership: ClusterOwnership
  readonly secret: string
  readonly routes: InternalRoutes
  readonly #parts: ClusterNodeParts
  readonly #times: LeaseTimes
  readonly #database: Database
  readonly #prepared: PreparedDirectory
  readonly #assignments: AssignmentLog
  readonly #table: PostgresNodeTable
  readonly #lease: Lease
  readonly #peers: Peers
  readonly #addresses = new Map<string, string>()
  readonly #taken: TakenNode[] = []
  #attached: Attached | undefined
  #membership: Membership | undefined
  #address = ''
  /** It has joined, and has the catalog as it was after that or later. */
  #isReady = false
  #isLeaving = false
  #isClosed = false
  #levelTimer: Timer | undefined
  #leveledAt = Number.NEGATIVE_INFINITY
  #busy: { at: number; cells: readonly string[] } = { at: Number.NEGATIVE_INFINITY, cells: [] }
  /** Told when another node asks this one to leave. */
  leaveAsked: () => void = () => {}

  private constructor(
    parts: ClusterNodeParts,
    given: { database: Database; secret: string; prepared: PreparedDirectory; assignments: AssignmentLog },
  ) {
    this.#parts = parts
    this.#database = given.database
    this.#prepared = given.prepared
    this.#assignments = given.assignments
    this.secret = given.secret
    this.#times = leaseTimes(parts.settings.ttlMs)
    this.#table = new PostgresNodeTable(given.database)
    this.#lease = new Lease(parts.clock, this.#times)
    this.#peers = new Peers(parts.callsOf(given.secret))
    const { identity } = given.prepared
    this.ownership = new ClusterOwnership({
      ...identity,
      lease: { isValid: () => this.#isReady && this.#lease.isValid() },
      addressOf: (id) => this.#addresses.get(id),
      random: parts.random,
    })
    this.routes = {
      ping: async () => this.#ping(),
      reach: async (body) => ({ reached: await this.#reaches(body as { address: string; node_id: string }) }),
      'catch-up': async (body) => ({ version: await this.#seen((body as { version: number }).version) }),
      status: async () => this.#report(),
      drain: async () => this.#beginDrain(),
      balance: async () => this.#beginBalance(),
      leave: async () => this.leaveAsked(),
    }
  }

  /**
   * Connects to PostgreSQL, and makes the directory ready to be opened.
   *
   * @param outdated the directory was taken over: see `prepareDirectory`
   * @throws `invalid_setting`, also if PostgreSQL does not answer; as `prepareDirectory`
   */
  static async prepare(parts: ClusterNodeParts, outdated = false): Promise<ClusterNode> {
    const { settings, bucket, clock, log } = parts
    const deadlineMs = Math.max(1_000, settings.ttlMs / 2)
    const database = await Database.connect(settings.url, { deadlineMs }).catch((error) => {
      throw isCellError(error, 'cluster_unavailable') ? noAnswer(error) : error
    })
    try {
      await assertCreatesOnce(bucket)
      const assignments = new AssignmentLog(bucket, clock)
      const table = new PostgresNodeTable(database)
      const prepared = await prepareDirectory(
        {
          paths: new StorePaths(parts.dataDir),
          bucket,
          storeId: async () => (await readClusterRow(database)).store_id ?? undefined,
          isDead: async (id) => {
            const { nodes } = await table.list()
            return nodes.some((node) => node.id === id && node.state === 'dead')
          },
          newestAssignment: () => assignments.newest(),
          clock,
          log,
        },
        { outdated },
      )
      const { secret } = await readClusterRow(database)
      const node = new ClusterNode(parts, { database, secret, prepared, assignments })
      const newest = await assignments.newest()
      // Before its store is opened: that sets aside what is another node's.
      if (newest !== undefined) node.#adoptAtStart(newest)
      return node
    } catch (error) {
      await database.close()
      throw error
    }
  }

  /** The start of the store finds out which of its files are of these tenures, and sets the others aside. */
  #adoptAtStart(assignment: Assignment): void {
    this.ownership.arrived(this.ownership.adopt(assignment).gained)
  }

  get self(): Peer {
    return { nodeId: this.#id, address: this.#address }
  }

  get assignment(): number {
    return this.ownership.number
  }

  get changed(): ClusterOwnership['changed'] {
    return this.ownership.changed
  }

  get #id(): string {
    return this.#prepared.identity.nodeId
  }

  /**
   * The store is open: from here on its catalog is the cluster's.
   *
   * @param lagMs how far backups are behind
   * @throws `object_store_unavailable` if the node could not enter its prefix; `cluster_unavailable`, `invalid_setting`
   */
  async attach(core: StoreCore, host: CellHost, lagMs: () => number | undefined): Promise<void> {
    const { clock, log } = this.#parts
    const { identity, role } = this.#prepared
    if (core.guard?.epoch === undefined) throw bucketAway()
    const catalog = new PostgresCatalog({
      database: this.#database,
      catalog: core.catalog,
      nodeId: identity.nodeId,
      clock,
      committed: (version, rows) => this.#committed(version, rows),
    })
    if (role === 'first') {
      await writeNodeIdentity(core.paths, identity)
      await this.#putFirstAssignment()
    }
    await catalog.seed()
    await catalog.catchUp().catch(unlessUnavailable)
    const published = new CatalogAssignment(core.catalog, clock, log)
    const { ownership } = this
    const mover = new Mover({
      self: identity.nodeId,
      log: this.#assignments,
      ownership,
      host,
      publish: (assignment) => published.publish(assignment),
      clock,
      logger: log,
    })
    const handovers = new Handovers({
      self: identity.nodeId,
      ownership,
      mover,
      clock,
      alive: () => this.#membership?.alive ?? [],
      busyCells: () => this.#busyCells(),
      takes: ({ id, address }) =>
        this.#peers.ping(address).then(
          ({ node_id, taking }) => node_id === id && taking,
          () => false,
        ),
      gave: (to) => this.#tell(to),
    })
    this.#attached = { core, catalog, published, mover, handovers, lagMs }
    core.catalog.changed.listen(() => this.#follow())
    core.guard.lost.listen(() => this.#end())
  }

  /**
   * Becomes a member, and serves from then on. This node listens already.
   *
   * @param address where the others reach it
   * @throws `invalid_setting` if another node does not reach it there; `taken_over`, `cluster_unavailable`
   */
  async join(address: string): Promise<void> {
    const { core, catalog, published, mover } = this.#theAttached()
    const { clock, log, random } = this.#parts
    const { guard } = core
    if (guard?.epoch === undefined) throw bucketAway()
    this.#address = address
    await this.#assertReachable(address)
    const { identity } = this.#prepared
    const takeOver = this.#newTakeOver()
    const caretaker = new Caretaker({
      self: identity.nodeId,
      takeOver,
      times: this.#times,
      clock,
      log,
      random,
      assignment: () => this.ownership.assignment,
      latestStamp: () => this.ownership.nextStampBound(clock.now()),
    })
    const membership = new Membership({
      self: { id: identity.nodeId, address, prefix: identity.prefix, epoch: guard.epoch, startedAt: clock.now() },
      lease: this.#lease,
      table: this.#table,
      guard,
      times: this.#times,
      clock,
      log,
      seenVersion: () => catalog.version,
      busyCells: () => this.#busyCells().length,
      stampBound: () => this.ownership.nextStampBound(clock.now()),
      stampBoundSaid: (bound) => {
        this.ownership.stampBound = bound
      },
      headSeen: (head) => this.#headSeen(head),
      nodesSeen: (nodes, watcher) => {
        this.#know(nodes)
        if (this.#isReady || this.#isUnreconciled) caretaker.look(nodes, watcher, membership.head?.server ?? '')
      },
    })
    this.#membership = membership
    await membership.join()
    // Only now: a revocation that did not wait for this node was before that.
    await this.#untilCaughtUp()
    const newest = await this.#assignments.newest(this.ownership.number)
    if (newest !== undefined) mover.learn(newest)
    if (newest !== undefined && published.number < newest.n) await published.publish(newest)
    this.#isReady = true
    this.changed.emit()
    this.#levelLater()
    log.info(
      { node: identity.nodeId, address, ranges: this.ownership.ranges.length, assignment: this.assignment },
      'this node is a member of its cluster',
    )
  }

  creator(): Peer | 'here' | undefined {
    const { servesSome } = this.ownership
    if (!this.#isLeaving && servesSome) return 'here'
    const owners = new Set(Object.keys(this.ownership.assignment?.prefixes ?? {}))
    const other = this.#membership?.alive.find(({ id }) => id !== this.#id && owners.has(id))
    if (other !== undefined) return { nodeId: other.id, address: other.address }
    return servesSome ? 'here' : undefined
  }

  async catchUp(): Promise<boolean> {
    const catalog = this.#attached?.catalog
    if (catalog === undefined) return false
    const before = catalog.version
    await within(this.#parts.clock, CATCH_UP_MS, catalog.catchUp().catch(() => {}))
    return catalog.version > before
  }

  notReady(): string | undefined {
    if (!this.#isReady) return 'This node has not joined its cluster yet.'
    if (!this.#lease.isValid()) return 'Neither PostgreSQL nor the object store has vouched for this node of late.'
    return undefined
  }

  /** Gives all cells to other nodes, as far as that is done before the signal. @returns whether nothing is left here */
  async handOver(signal?: AbortSignal): Promise<boolean> {
    const { log } = this.#parts
    const attached = this.#attached
    if (!this.#isReady || attached === undefined || attached.core.guard?.failure !== undefined) return false
    this.#isLeaving = true
    this.#levelTimer?.cancel()
    try {
      if (attached.handovers.loads().every(({ id }) => id === this.#id)) return false
      await this.#membership?.setLeaving(true)
      const isEmpty = await attached.handovers.giveAll(signal)
      await attached.mover.settled()
      return isEmpty
    } catch (err) {
      log.warn({ err }, 'could not hand over all cells; other nodes take over the rest')
      return false
    }
  }

  /** Ends the membership. Call it when nothing is answered any more, and before the store is closed. */
  async leave(): Promise<void> {
    this.#end()
    this.#attached?.published.stop()
    await this.#membership?.leave(this.ownership.number > 0 && this.ownership.ranges.length === 0)
  }

  /** After the store is closed. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#end()
    await this.#database.close()
  }

  async status(): Promise<ClusterStatus> {
    const { catalog, handovers } = this.#theAttached()
    const listed = await this.#table.list().catch(() => undefined)
    const nodes = listed?.nodes ?? this.#membership?.nodes ?? []
    const head = listed?.head.version ?? this.#membership?.head?.version ?? catalog.version
    const loads = new Map(handovers.loads(nodes).map((each) => [each.id, each.ranges]))
    return {
      node: this.#id,
      assignment: this.assignment,
      catalog_version: catalog.version,
      postgres_version: listed?.head.version ?? null,
      level: levelingMove(handovers.loads(nodes.filter(({ state }) => state === 'alive'))) === undefined,
      nodes: await Promise.all(
        nodes.map(async (node) => ({
          id: node.id,
          address: node.address,
          state: node.state,
          ranges: loads.get(node.id) ?? 0,
          busy_cells: node.busyCells,
          silent_ms: Math.round(this.#membership?.watcher.silentMs(node.id) ?? 0),
          behind: Math.max(0, head - (node.id === this.#id ? catalog.version : node.seenVersion)),
          started_at: new Date(node.startedAt).toISOString(),
          report: await this.#reportOf(node),
        })),
      ),
      taken_over: [...this.#taken],
    }
  }

  /** Empties a node, this one or another one, for as long as it runs. @throws `invalid_request` if there is no such node */
  async drain(nodeId: string): Promise<void> {
    const node = await this.#member(nodeId)
    if (node.id === this.#id) await this.#beginDrain()
    else await this.#peers.begin(node.address, 'drain')
  }

  /** Levels the nodes by their busy cells now. */
  async balance(): Promise<void> {
    const nodes = this.#membership?.nodes.filter(({ state }) => state !== 'dead') ?? []
    await Promise.all(
      nodes.map((node) =>
        node.id === this.#id ? this.#beginBalance() : this.#peers.begin(node.address, 'balance').catch(() => {}),
      ),
    )
  }

  /**
   * This node leaves, as if it was stopped.
   *
   * @param last as the only one: its store needs no cluster afterwards
   * @throws `invalid_request` if there are others
   */
  async leaveFor(last: boolean): Promise<void> {
    if (last) await this.#leaveAsLast()
    // Its answer goes out before.
    this.#parts.clock.setTimer(() => this.leaveAsked(), LEAVE_AFTER_MS)
  }

  async #leaveAsLast(): Promise<void> {
    const { nodes } = await this.#table.list()
    const others = nodes.filter(({ id }) => id !== this.#id)
    if (others.length > 0 || this.ownership.ranges.length < RANGES) {
      const names = others.map(({ address }) => address).join(', ')
      throw new CellError(
        'invalid_request',
        `This is not the last node: there is ${names || 'one that is not taken over yet'}. Stop the others first; each hands over its cells.`,
      )
    }
    this.#end()
    await this.#membership?.leave(false)
    for (;;) {
      const newest = (await this.#assignments.newest(this.ownership.number)) ?? this.ownership.assignment
      if (newest === undefined) throw new CellError('internal', 'There is no assignment.')
      if (newest.mode === 'alone' || (await this.#assignments.put({ ...newest, n: newest.n + 1, mode: 'alone' }))) break
    }
    await dissolve(this.#database)
  }

  async #beginDrain(): Promise<object> {
    void this.handOver()
    return {}
  }

  /** A node that was drained takes part again. */
  async #beginBalance(): Promise<object> {
    if (!this.#isReady) return {}
    if (this.#isLeaving) {
      await this.#membership?.setLeaving(false)
      this.#isLeaving = false
    }
    this.#leveledAt = Number.NEGATIVE_INFINITY
    this.#levelLater(0)
    return {}
  }

  #levelLater(ms = LEVEL_EVERY_MS * (0.5 + this.#parts.random() / 2)): void {
    this.#levelTimer?.cancel()
    if (!this.#isReady || this.#isLeaving) return
    this.#levelTimer = this.#parts.clock.setTimer(() => void this.#level().finally(() => this.#levelLater()), ms)
  }

  async #level(): Promise<void> {
    const { clock, log } = this.#parts
    const { handovers } = this.#theAttached()
    const loads = handovers.loads()
    const move = levelingMove(loads)
    if (move?.from !== this.#id) return
    const isEmpty = loads.some(({ id, ranges }) => id === move.to && ranges === 0)
    if (!isEmpty && clock.monotonic() - this.#leveledAt < LEVEL_PAUSE_MS) return
    this.#leveledAt = clock.monotonic()
    await handovers.level().catch((err: unknown) => log.warn({ err }, 'could not give cells to a node that has fewer'))
  }

  #newTakeOver(): TakeOver {
    const { clock, log } = this.#parts
    const { mover, handovers } = this.#theAttached()
    return new TakeOver({
      table: this.#table,
      times: this.#times,
      clock,
      log,
      prefixOf: ({ prefix }) => this.#foreignPrefix(prefix),
      answers: async ({ id, address }) =>
        await this.#peers.ping(address).then(
          ({ node_id, serving }) => node_id === id && serving,
          () => false,
        ),
      reassign: async ({ node, lastLog, stampBound }) => {
        const prefix = this.#membership?.nodes.find(({ id }) => id === node)?.prefix
        const lost = { id: node, prefix: prefix ?? this.ownership.assignment?.prefixes[node] ?? `nodes/${node}/` }
        const heirs = await handovers.heirs(!this.#isLeaving)
        await mover.takeOver(lost, { lastLog, stampBound }, heirs)
        this.#noteTaken(node)
        for (const id of this.#addresses.keys()) this.#tell(id)
      },
    })
  }

  #foreignPrefix(prefix: string): ForeignPrefix {
    const { bucket, clock, dataDir } = this.#parts
    const store = scopedTo(bucket, prefix, () => this.#attached?.core.id)
    return new ForeignPrefix(store, placeHere(os.hostname(), dataDir), clock)
  }

  #noteTaken(node: string): void {
    const at = new Date(this.#parts.clock.now()).toISOString()
    this.#taken.unshift({ node, at, lost_from: null, lost_until: at })
    this.#taken.splice(TAKEN_KEPT)
  }

  /** The first node has everything. Another one may have been faster. */
  async #putFirstAssignment(): Promise<void> {
    const { nodeId, prefix } = this.#prepared.identity
    const newest = await this.#assignments.newest(this.ownership.number)
    if (newest?.mode === 'cluster' || this.ownership.assignment?.mode === 'cluster') return
    const before = newest ?? this.ownership.assignment
    const first = before === undefined ? firstAssignment(nodeId, prefix) : { ...before, n: before.n + 1, mode: 'cluster' as const }
    if (await this.#assignments.put(first)) this.#adoptAtStart(first)
    else await this.#putFirstAssignment()
  }

  /** Another node must be able to call this one back; if none answers, nobody can tell. */
  async #assertReachable(address: string): Promise<void> {
    const { nodes } = await this.#table.list()
    const others = nodes.filter(({ id, state }) => id !== this.#id && state === 'alive')
    for (const other of others) {
      const reached = await this.#peers.reaches(other.address, address, this.#id).catch(() => undefined)
      if (reached === true) return
      if (reached === false) throw unreachable(address, other.address)
    }
    if (others.length > 0)
      this.#parts.log.warn({ address }, 'no other node has answered, so nobody has checked that this one can be reached')
  }

  async #reaches({ address, node_id }: { address: string; node_id: string }): Promise<boolean> {
    return await this.#peers.ping(address).then(
      (answer) => answer.node_id === node_id,
      () => false,
    )
  }

  #ping(): PingAnswer {
    const serving = this.notReady() === undefined
    return { node_id: this.#id, serving, taking: serving && !this.#isLeaving }
  }

  /** @returns the version that the catalog has, which is at least that one if PostgreSQL answers */
  async #seen(version: number): Promise<number> {
    const { catalog } = this.#theAttached()
    await catalog.catchUp(version).catch(unlessUnavailable)
    return catalog.version
  }

  #report(): NodeReport {
    const { lagMs, mover } = this.#theAttached()
    return {
      lease_ms: Math.round(this.#lease.leftMs()),
      ranges_moving: mover.moving,
      backup_lag_ms: lagMs() ?? null,
    }
  }

  async #reportOf(node: NodeRow): Promise<NodeReport | null> {
    if (node.id === this.#id) return this.#report()
    return await this.#peers.status<NodeReport>(node.address).catch(() => null)
  }

  async #member(id: string): Promise<NodeRow> {
    const { nodes } = await this.#table.list()
    const found = nodes.filter((node) => node.id.startsWith(id) || node.address === id)
    const [node] = found
    if (node !== undefined && found.length === 1) return node
    const names = nodes.map((each) => `${each.id} (${each.address})`).join(', ')
    throw new CellError('invalid_request', `No node, or more than one, is called that. The nodes are: ${names}.`, {
      field: 'node',
    })
  }

  async #committed(version: number, rows: readonly SharedRow[]): Promise<void> {
    if (!isRevocation(rows)) return
    const { clock } = this.#parts
    const { ttlMs, fenceMs } = this.#times
    const barrier = new RevocationBarrier({
      self: this.#id,
      table: this.#table,
      clock,
      withinMs: 2 * ttlMs + fenceMs,
      confirm: ({ address }, wanted) => this.#peers.confirm(address, wanted),
    })
    await barrier.pass(version)
    // A node that was taken over meanwhile was not waited for by others.
    if (this.#isReady) this.ownership.assertMayAnswer()
  }

  #headSeen(head: HeadSeen): void {
    const catalog = this.#attached?.catalog
    if (catalog === undefined) return
    if (head.version > catalog.version || head.incarnation !== head.server) catalog.catchUp().catch(unlessUnavailable)
  }

  get #isUnreconciled(): boolean {
    const head = this.#membership?.head
    return head !== undefined && head.incarnation !== head.server
  }

  async #untilCaughtUp(): Promise<void> {
    const { catalog } = this.#theAttached()
    const { clock } = this.#parts
    const deadline = clock.monotonic() + RECONCILED_MS
    for (;;) {
      try {
        await catalog.catchUp()
        return
      } catch (error) {
        if (!isCellError(error, 'cluster_unavailable') || clock.monotonic() > deadline) throw error
      }
      await delay(clock, this.#times.ttlMs / 10)
    }
  }

  #know(nodes: readonly NodeRow[]): void {
    let isNew = false
    for (const { id, address } of nodes) {
      if (id === this.#id || this.#addresses.get(id) === address) continue
      this.#addresses.set(id, address)
      isNew = true
    }
    if (isNew) this.changed.emit()
  }

  /** Another node has changed who has what. */
  #follow(): void {
    const attached = this.#attached
    if (attached === undefined || this.#isClosed) return
    const newer = attached.published.after(this.ownership.number)
    if (newer !== undefined) attached.mover.learn(newer)
  }

  /** So that a node knows at once what the catalog has; otherwise it hears of it with its next beat. */
  #tell(id: string): void {
    const address = this.#addresses.get(id)
    const version = this.#attached?.catalog.version
    if (id === this.#id || address === undefined || version === undefined) return
    this.#peers.confirm(address, version).catch(() => {})
  }

  #busyCells(): readonly string[] {
    const { clock } = this.#parts
    const now = clock.monotonic()
    if (now - this.#busy.at < BUSY_LOOK_MS) return this.#busy.cells
    const busiest = this.#attached?.core.observed.activity.busiest(BUSY_MAX) ?? []
    const cells = busiest.map(({ cellId }) => cellId).filter((id) => this.ownership.isHere(id))
    this.#busy = { at: now, cells }
    return cells
  }

  #end(): void {
    this.#isReady = false
    this.#levelTimer?.cancel()
    this.changed.emit()
  }

  #theAttached(): Attached {
    if (this.#attached !== undefined) return this.#attached
    throw new CellError('internal', 'The store of this node is not open.')
  }
}

/** @throws every other error */
function unlessUnavailable(error: unknown): void {
  if (!isCellError(error, 'cluster_unavailable')) throw error
}

async function assertCreatesOnce(bucket: ObjectStore): Promise<void> {
  if ((await bucket.createsOnlyOnce?.()) !== false) return
  throw new CellError(
    'invalid_setting',
    `${bucket.url} does not honour conditional writes, so several nodes can't share it. Use an object store that does.`,
    { field: 'objectStore' },
  )
}

function noAnswer({ message, cause }: CellError): CellError {
  return new CellError('invalid_setting', `${message} Nothing was changed. Check the URL of --cluster (CELLSTORE_CLUSTER).`, {
    field: 'cluster',
    cause,
  })
}

function bucketAway(): CellError {
  return new CellError(
    'object_store_unavailable',
    'The object store does not answer. A node of a cluster needs it to start.',
  )
}

function unreachable(address: string, by: string): CellError {
  return new CellError(
    'invalid_setting',
    `The node at ${by} does not reach this one at ${address}. Set --advertise (CELLSTORE_ADVERTISE) to a URL at which the other nodes do.`,
    { field: 'advertise' },
  )
}
