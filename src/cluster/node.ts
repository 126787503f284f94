import type { ShippingStatus } from '../backup/shipping/shipping-status.ts'
import type { Assignment } from '../catalog/assignment/assignment.ts'
import { CellError } from '../errors.ts'
import type { ClusterPeers, InternalRoutes, Peer } from '../http/forwarding/cluster-peers.ts'
import type { ClusterCommands } from '../http/routes/node/node-view.ts'
import type { CellHost } from '../store/cell-host.ts'
import type { AssignmentLog } from '../store/start/assignment-log.ts'
import { writeNodeIdentity } from '../store/start/node-identity.ts'
import type { StoreCore } from '../store/store-core.ts'
import { BusyCells } from './assignment/busy-cells.ts'
import { CatalogAssignment } from './assignment/catalog-assignment.ts'
import { ClusterOwnership } from './assignment/cluster-ownership.ts'
import { assertLast, assignAgain, assignAlone, assignFirst } from './assignment/first-and-last.ts'
import { Handovers } from './assignment/handovers.ts'
import { Leveling } from './assignment/leveling.ts'
import { Mover } from './assignment/mover.ts'
import { CatalogFreshness } from './catalog-freshness.ts'
import { type ClusterStatus, type NodeReport, statusOf } from './cluster-status.ts'
import { Addresses } from './membership/addresses.ts'
import type { Caretaker } from './membership/caretaker.ts'
import { fenceForgotten } from './membership/forgotten-nodes.ts'
import { Lease, type LeaseTimes, leaseTimes } from './membership/lease.ts'
import { assertReachable, memberCalled } from './membership/members.ts'
import { Membership } from './membership/membership.ts'
import type { HeadSeen } from './membership/node-table.ts'
import { RevocationBarrier } from './membership/revocation-barrier.ts'
import { newCaretaker } from './new-caretaker.ts'
import { Peers, type PingAnswer, prepareAsked } from './peers.ts'
import { dissolve } from './postgres/cluster-row.ts'
import type { Database } from './postgres/database.ts'
import { PostgresNodeTable } from './postgres/node-table.ts'
import { PostgresCatalog } from './postgres/postgres-catalog.ts'
import { lostCatalogs } from './rebuild/lost-catalogs.ts'
import { bucketAway, unlessUnavailable, untilCaughtUp } from './start/caught-up.ts'
import {
  type ClusterNodeParts,
  type ClusterSettings,
  type OpenedCluster,
  openCluster,
} from './start/open-cluster.ts'
import type { PreparedDirectory } from './start/prepare-directory.ts'

export type { ClusterSettings }

const BUSY_MAX = 10_000
const LEAVE_AFTER_MS = 100

/** What the parts of {@link ClusterNode} are once its store is open. */
interface Attached {
  core: StoreCore
  host: CellHost
  catalog: PostgresCatalog
  published: CatalogAssignment
  mover: Mover
  handovers: Handovers
  leveling: Leveling
  /** How far backups are behind. */
  shipping(): ShippingStatus | undefined
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
  readonly #addresses: Addresses
  readonly #barrier: RevocationBarrier
  readonly #busy: BusyCells
  readonly #freshness: CatalogFreshness
  #attached: Attached | undefined
  #membership: Membership | undefined
  #address = ''
  /** It has joined, and has the catalog as it was after that or later. */
  #isReady = false
  #isLeaving = false
  #isClosed = false
  /** Told when another node asks this one to leave. */
  leaveAsked: () => void = () => {}

  private constructor(parts: ClusterNodeParts, given: OpenedCluster) {
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
    this.#addresses = new Addresses(identity.nodeId)
    this.#barrier = new RevocationBarrier({
      self: identity.nodeId,
      table: this.#table,
      clock: parts.clock,
      withinMs: 2 * this.#times.ttlMs + this.#times.fenceMs,
      confirm: ({ address }, version) => this.#peers.confirm(address, version),
      // A node that was taken over meanwhile was not waited for by others.
      mayAnswer: () => (this.#isReady ? this.ownership.assertMayAnswer() : undefined),
    })
    this.ownership = new ClusterOwnership({
      ...identity,
      lease: { isValid: () => this.#isReady && this.#lease.isValid() },
      addressOf: (id) => this.#addresses.get(id),
      random: parts.random,
    })
    const busiest = () => this.#attached?.core.observed.activity.busiest(BUSY_MAX) ?? []
    this.#busy = new BusyCells(this.ownership, busiest, parts.clock)
    this.#freshness = new CatalogFreshness({
      clock: parts.clock,
      catalog: () => this.#attached?.catalog,
      versionOf: ({ address }) => this.#peers.confirm(address, 0),
      others: () => this.#membership?.others ?? [],
    })
    this.routes = {
      ping: async () => this.#ping(),
      reach: async (body) => {
        const { address, node_id: id } = body as { address: string; node_id: string }
        return { reached: (await this.#peers.pingNode({ id, address })) !== undefined }
      },
      'catch-up': async (body) => ({ version: await this.#seen((body as { version: number }).version) }),
      status: async () => this.#report(),
      drain: async () => this.#beginDrain(),
      balance: async () => this.#beginBalance(),
      prepare: (body) => prepareAsked(body, parts.clock, (...of) => this.#theAttached().host.prepare(...of)),
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
    const given = await openCluster(parts, outdated)
    const node = new ClusterNode(parts, given)
    // Before its store is opened: that sets aside what is another node's.
    if (given.newest !== undefined) node.#adoptAtStart(given.newest)
    return node
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
   * @param shipping how far backups are behind
   * @throws `object_store_unavailable` if the node could not enter its prefix; `cluster_unavailable`, `invalid_setting`
   */
  async attach(core: StoreCore, host: CellHost, shipping: Attached['shipping']): Promise<void> {
    const { clock, random, log } = this.#parts
    const { identity, role } = this.#prepared
    const [{ prefix }, storeId, table, times] = [identity, core.id, this.#table, this.#times]
    if (core.guard?.epoch === undefined) throw bucketAway()
    const catalog = new PostgresCatalog({
      database: this.#database,
      catalog: core.catalog,
      nodeId: identity.nodeId,
      clock,
      committed: (version, rows) => this.#barrier.committed(version, rows),
      reopening: () => fenceForgotten({ ...this.#parts, prefix, storeId, table, times }),
      lost: (since) => lostCatalogs({ ...this.#parts, prefix, table, assignments: this.#assignments }, since),
    })
    if (role === 'first') {
      await writeNodeIdentity(core.paths, identity)
      const first = await assignFirst(this.#assignments, identity, this.ownership)
      if (first !== undefined) this.#adoptAtStart(first)
    }
    await catalog.seed()
    await catalog.catchUp().catch(unlessUnavailable)
    const published = new CatalogAssignment(core.catalog, clock, log)
    const mover = new Mover({
      self: identity.nodeId,
      log: this.#assignments,
      ownership: this.ownership,
      host,
      publish: (assignment) => published.publish(assignment),
      prepare: (id, ranges) => this.#peers.prepare(this.#addresses.get(id), this.#busy.in(ranges)),
      beat: async () => await this.#membership?.beat(),
      clock,
      logger: log,
    })
    const handovers = new Handovers({
      self: identity.nodeId,
      ownership: this.ownership,
      mover,
      clock,
      alive: () => this.#membership?.alive ?? [],
      busyCells: () => this.#busy.cells(),
      takes: async (node) => (await this.#peers.pingNode(node))?.taking === true,
      gave: (to) => this.#tell(to),
    })
    const leveling = new Leveling({ self: identity.nodeId, handovers, clock, random, log })
    this.#attached = { core, host, catalog, published, mover, handovers, leveling, shipping }
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
    const { clock, log } = this.#parts
    const { guard } = core
    if (guard?.epoch === undefined) throw bucketAway()
    this.#address = address
    await assertReachable({ id: this.#id, address }, await this.#table.list(), this.#peers, log)
    const { nodeId, prefix } = this.#prepared.identity
    const caretaker = this.#newCaretaker()
    const membership = new Membership({
      self: { id: nodeId, address, prefix, epoch: guard.epoch, startedAt: clock.now() },
      lease: this.#lease,
      table: this.#table,
      guard,
      times: this.#times,
      clock,
      log,
      seenVersion: () => catalog.version,
      busyCells: () => this.#busy.cells().length,
      stamps: this.ownership,
      backedUpTo: () => this.#attached?.shipping()?.allBackedUpTo ?? undefined,
      headSeen: (head) => this.#headSeen(head),
      lacksAddresses: () => this.#addresses.lacks(Object.keys(this.ownership.assignment?.prefixes ?? {})),
      nodesSeen: (nodes, watcher) => {
        if (this.#addresses.know(nodes)) this.changed.emit()
        if (this.#isReady || this.#isUnreconciled)
          caretaker.look(nodes, watcher, membership.head?.server ?? '')
      },
    })
    this.#membership = membership
    await membership.join()
    // Only now: a revocation that did not wait for this node was before that.
    await untilCaughtUp(catalog, clock, this.#times.ttlMs / 10)
    const newest = await assignAgain(this.#assignments, nodeId, this.ownership)
    if (newest !== undefined) mover.learn(newest)
    if (newest !== undefined && published.number < newest.n) await published.publish(newest)
    this.#isReady = true
    this.changed.emit()
    this.#attached?.leveling.start()
    log.info(
      { node: nodeId, address, ranges: this.ownership.ranges.length, assignment: this.assignment },
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

  get catalogVersion(): number {
    return this.#attached?.catalog.version ?? 0
  }

  async catchUp(since = this.catalogVersion): Promise<boolean> {
    return await this.#freshness.catchUp(since)
  }

  async mayLackChanges(): Promise<boolean> {
    return await this.#freshness.mayLackChanges()
  }

  notReady(): string | undefined {
    if (!this.#isReady) return 'This node has not joined its cluster yet.'
    if (!this.#lease.isValid())
      return 'Neither PostgreSQL nor the object store has vouched for this node of late.'
    return undefined
  }

  /** Gives all cells to other nodes, as far as that is done before the signal. @returns whether nothing is left here */
  async handOver(signal?: AbortSignal): Promise<boolean> {
    const { log } = this.#parts
    const attached = this.#attached
    if (!this.#isReady || attached === undefined || attached.core.guard?.failure !== undefined) return false
    this.#isLeaving = true
    this.#attached?.leveling.stop()
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
    return await statusOf({
      node: this.#id,
      assignment: this.assignment,
      catalogVersion: catalog.version,
      table: this.#table,
      membership: this.#membership,
      handovers,
      reportOf: async (node) =>
        node.id === this.#id
          ? this.#report()
          : await this.#peers.status<NodeReport>(node.address).catch(() => null),
    })
  }

  /** Empties a node, this one or another one, for as long as it runs. @throws `invalid_request` if there is no such node */
  async drain(nodeId: string): Promise<void> {
    const node = memberCalled(nodeId, (await this.#table.list()).nodes)
    if (node.id === this.#id) await this.#beginDrain()
    else await this.#peers.begin(node.address, 'drain')
  }

  /** Levels the nodes by their busy cells now. */
  async balance(): Promise<void> {
    const nodes = this.#membership?.nodes.filter(({ state }) => state !== 'dead') ?? []
    await Promise.all(
      nodes.map((node) =>
        node.id === this.#id
          ? this.#beginBalance()
          : this.#peers.begin(node.address, 'balance').catch(() => {}),
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
    assertLast(this.#id, (await this.#table.list()).nodes, this.ownership)
    this.#end()
    await this.#membership?.leave(false)
    await assignAlone(this.#assignments, this.ownership)
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
    this.#attached?.leveling.now()
    return {}
  }

  #newCaretaker(): Caretaker {
    const { core, mover, handovers } = this.#theAttached()
    return newCaretaker({
      ...this.#parts,
      self: this.#id,
      table: this.#table,
      peers: this.#peers,
      times: this.#times,
      ownership: this.ownership,
      mover,
      handovers,
      storeId: core.id,
      isHeir: () => !this.#isLeaving,
      nodes: () => this.#membership?.nodes ?? [],
      reassigned: (published) =>
        void published.then(() => {
          for (const id of this.#addresses.ids) this.#tell(id)
        }),
    })
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
    const { shipping, mover } = this.#theAttached()
    return {
      lease_ms: Math.round(this.#lease.leftMs()),
      ranges_moving: mover.moving,
      backup_lag_ms: shipping()?.lagMs ?? null,
    }
  }

  #headSeen(head: HeadSeen): void {
    const catalog = this.#attached?.catalog
    if (catalog === undefined) return
    if (head.version > catalog.version || head.incarnation !== head.server)
      catalog.catchUp().catch(unlessUnavailable)
  }

  get #isUnreconciled(): boolean {
    const head = this.#membership?.head
    return head !== undefined && head.incarnation !== head.server
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

  #end(): void {
    this.#isReady = false
    this.#attached?.leveling.stop()
    this.changed.emit()
  }

  #theAttached(): Attached {
    if (this.#attached !== undefined) return this.#attached
    throw new CellError('internal', 'The store of this node is not open.')
  }
}
