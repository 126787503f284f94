import { EpochGuard } from '../../src/backup/fence/epoch-guard.ts'
import { encodeRecord, type HolderPlace } from '../../src/backup/fence/holder-record.ts'
import { HolderRecords, type HolderRecordsParts } from '../../src/backup/fence/holder-records.ts'
import { scopedTo } from '../../src/backup/fence/scoped-object-store.ts'
import { bufferBody } from '../../src/backup/object-store/object-store.ts'
import { fenceKey, logKey } from '../../src/backup/versions/object-keys.ts'
import { silentLog } from '../../src/base/log.ts'
import { withRange } from '../../src/catalog/assignment/assignment.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { CatalogAssignment } from '../../src/cluster/assignment/catalog-assignment.ts'
import { ClusterOwnership } from '../../src/cluster/assignment/cluster-ownership.ts'
import { Handovers } from '../../src/cluster/assignment/handovers.ts'
import { Leveling } from '../../src/cluster/assignment/leveling.ts'
import { Mover } from '../../src/cluster/assignment/mover.ts'
import { Addresses } from '../../src/cluster/membership/addresses.ts'
import { fenceForgotten } from '../../src/cluster/membership/forgotten-nodes.ts'
import { Lease, leaseTimes } from '../../src/cluster/membership/lease.ts'
import { Membership } from '../../src/cluster/membership/membership.ts'
import { RevocationBarrier } from '../../src/cluster/membership/revocation-barrier.ts'
import { newCaretaker } from '../../src/cluster/new-caretaker.ts'
import { Peers } from '../../src/cluster/peers.ts'
import { AssignmentLog } from '../../src/store/start/assignment-log.ts'
import { SimulatedBucket } from './simulated-bucket.ts'
import { SimulatedCatalog } from './simulated-catalog.ts'
import { MachineClock } from './simulated-clock.ts'
import { SimulatedConnection } from './simulated-postgres.ts'
import type { Surroundings } from './surroundings.ts'

const EPOCH = 1
const HOLDER_LEASE_MS = 90_000
const STORE_ID = '00000000-0000-4000-8000-000000000000'
const NO_PROCESS = { pid_namespace: null, pid: 1, start_time: null }

/** The parts of `ClusterNode`, put together as there. What it has of a store is simulated: cells are counts, and its log is a PUT of nothing. */
export class SimulatedNode {
  readonly id: string
  readonly address: string
  readonly prefix: string
  readonly clock: MachineClock
  readonly lease: Lease
  readonly ownership: ClusterOwnership
  readonly membership: Membership
  readonly catalog: SimulatedCatalog
  readonly barrier: RevocationBarrier
  readonly #cluster: Surroundings
  readonly #guard: EpochGuard
  readonly #records: HolderRecords
  readonly #leveling: Leveling
  readonly #bucket: SimulatedBucket
  #logNumber = 0

  constructor(cluster: Surroundings, id: string) {
    const { random, postgres, objects, settings, statements, requests } = cluster
    this.#cluster = cluster
    this.id = id
    this.address = `http://${id}`
    this.prefix = `nodes/${id}/`
    const log = silentLog
    const clock = new MachineClock(cluster.clock)
    this.clock = clock
    const times = leaseTimes(settings.ttlMs)
    const bucket = new SimulatedBucket(objects, clock, settings.bucketMs, requests)
    this.#bucket = bucket
    const table = new SimulatedConnection(postgres, clock, settings.postgresMs, statements)
    const scoped = scopedTo(bucket, this.prefix, () => STORE_ID)
    this.#guard = new EpochGuard(scoped, clock)
    this.#records = new HolderRecords(
      {
        store: scoped,
        guard: this.#guard,
        // On the node's disk.
        remembered: { write: async () => {} } as unknown as HolderRecordsParts['remembered'],
        here: this.#place,
        leaseMs: HOLDER_LEASE_MS,
        clock,
        random,
        log,
      },
      id,
      async () => {},
    )
    this.lease = new Lease(clock, times)
    const addresses = new Addresses(id)
    const peers = new Peers({
      call: (address, name, body, { timeoutMs }) => cluster.call(clock, address, name, body, timeoutMs),
    })
    this.ownership = new ClusterOwnership({
      nodeId: id,
      prefix: this.prefix,
      lease: this.lease,
      addressOf: (node) => addresses.get(node),
      random,
    })
    const forgotten = {
      table,
      bucket,
      storeId: STORE_ID,
      prefix: this.prefix,
      dataDir: `/${id}`,
      times,
      clock,
      log,
    }
    this.catalog = new SimulatedCatalog(
      table,
      id,
      clock,
      random,
      () => fenceForgotten(forgotten),
      cluster.seed,
    )
    const published = new CatalogAssignment(this.catalog as unknown as Catalog, clock, log)
    const assignments = new AssignmentLog(bucket, clock)
    const mover = new Mover({
      self: id,
      log: assignments,
      ownership: this.ownership,
      host: {
        release: async () => ({ lastLog: this.#lastLog, stampBound: this.ownership.stampBound }),
        resume: () => {},
        forget: async () => {},
        prepare: async () => {},
        acquired: async () => {},
      },
      publish: (assignment) => published.publish(assignment),
      prepare: async () => {},
      beat: () => this.membership.beat(),
      clock,
      logger: log,
    })
    const tell = (to: string) => {
      const address = addresses.get(to)
      if (to !== id && address !== undefined) peers.confirm(address, this.catalog.version).catch(() => {})
    }
    const handovers = new Handovers({
      self: id,
      ownership: this.ownership,
      mover,
      clock,
      alive: () => this.membership.alive,
      busyCells: () => this.#busyCells(),
      takes: async (node) => (await peers.pingNode(node))?.taking === true,
      gave: tell,
    })
    this.#leveling = new Leveling({ self: id, handovers, clock, random, log })
    const caretaker = newCaretaker({
      self: id,
      table,
      peers,
      times,
      ownership: this.ownership,
      mover,
      handovers,
      bucket,
      storeId: STORE_ID,
      dataDir: `/${id}`,
      isHeir: () => true,
      nodes: () => this.membership.nodes,
      reassigned: (published) =>
        void published.then(() => {
          for (const each of addresses.ids) tell(each)
        }),
      clock,
      random,
      log,
    })
    this.membership = new Membership({
      self: { id, address: this.address, prefix: this.prefix, epoch: EPOCH, startedAt: clock.now() },
      lease: this.lease,
      table,
      guard: this.#guard,
      times,
      clock,
      log,
      seenVersion: () => this.catalog.version,
      busyCells: () => this.ownership.ranges.reduce((sum, range) => sum + cluster.busyIn(range), 0),
      stamps: this.ownership,
      backedUpTo: () => clock.now(),
      headSeen: (head) => {
        if (head.version > this.catalog.version || head.incarnation !== head.server)
          this.catalog.catchUp().catch(() => {})
      },
      lacksAddresses: () => addresses.lacks(Object.keys(this.ownership.assignment?.prefixes ?? {})),
      nodesSeen: (nodes, watcher) => {
        addresses.know(nodes)
        caretaker.look(nodes, watcher, this.membership.head?.server ?? '')
      },
    })
    this.barrier = new RevocationBarrier({
      self: id,
      table,
      clock,
      withinMs: 2 * times.ttlMs + times.fenceMs,
      confirm: ({ address }, version) => peers.confirm(address, version),
      mayAnswer: () => this.ownership.assertMayAnswer(),
    })
    this.catalog.changed.listen(() => {
      if (published.number > this.ownership.number)
        mover.learn(cluster.parsed(this.catalog.meta('assignment') ?? ''))
    })
    this.#guard.lost.listen(() => cluster.ended(this))
    mover.learn(cluster.first)
  }

  get #place(): HolderPlace {
    return { host: this.id, boot_id: this.id, directory: `/${this.id}`, ...NO_PROCESS }
  }

  get #lastLog() {
    return this.#logNumber === 0 ? null : { epoch: EPOCH, number: this.#logNumber }
  }

  /** @param inMs joins after that, as others do at another moment */
  async join(inMs: number): Promise<void> {
    const { random, settings } = this.#cluster
    const written_at = new Date(this.clock.now()).toISOString()
    const record = {
      ...this.#place,
      epoch: EPOCH,
      sequence: 0,
      instance: this.id,
      written_at,
      lease_ms: HOLDER_LEASE_MS,
      closed: false,
    }
    await new Promise<void>((resolve) => this.clock.setTimer(resolve, inMs))
    await scopedTo(this.#bucket, this.prefix, () => STORE_ID).put(
      fenceKey(EPOCH),
      bufferBody(encodeRecord(record)),
    )
    this.#guard.hold(EPOCH, true)
    await this.membership.join()
    this.#records.start([])
    this.#leveling.start()
    this.#ship(random() * settings.lagMs)
  }

  /** The machine is off from now on. */
  lose(): void {
    this.clock.isOff = true
  }

  /** What the node answers to another one; as `ClusterNode.routes`. */
  async answer(name: string, body: object): Promise<unknown> {
    if (name === 'ping')
      return { node_id: this.id, serving: this.lease.isValid(), taking: this.lease.isValid() }
    await this.catalog.catchUp((body as { version: number }).version).catch(() => {})
    return { version: this.catalog.version }
  }

  /** As the shipper: a PUT, and a look at the fence after it. Something has changed in each tick. */
  #ship(inMs: number): void {
    this.clock.setTimer(() => {
      const number = ++this.#logNumber
      const key = logKey({ epoch: EPOCH, number })
      scopedTo(this.#bucket, this.prefix, () => STORE_ID)
        .put(key, bufferBody(Buffer.alloc(0)))
        .then(() => this.#guard.check())
        .catch(() => {})
      this.#ship(this.#cluster.settings.lagMs)
    }, inMs)
  }

  /** As many ids as the node has busy cells. */
  #busyCells(): string[] {
    return this.ownership.ranges.flatMap((range) =>
      new Array<string>(this.#cluster.busyIn(range)).fill(withRange(STORE_ID, range)),
    )
  }
}
