import type { EpochGuard } from '../../backup/fence/epoch-guard.ts'
import { takenOver } from '../../backup/fence/epoch-guard.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { type Lease, type LeaseTimes, momentOf } from './lease.ts'
import type { HeadSeen, NodeRow, NodeTable } from './node-table.ts'
import { Watcher } from './watcher.ts'

/** Beats and looks are made so often within what they vouch for. */
const ROUNDS_PER_LEASE = 3
/**
 * So many nodes look at all others with each beat, those with the least ids. If each of a thousand did, PostgreSQL would send half a
 * million rows a second, and a thousand nodes would ask after each one that is silent.
 */
const WATCHERS = 16
/** The others look with each so manieth beat: by then they notice that the watchers are silent. */
const BEATS_PER_LOOK = 10

/** What a node is to the others; its epoch is that of its fence. */
export type NodeSelf = Pick<NodeRow, 'id' | 'address' | 'prefix' | 'epoch' | 'startedAt'>

/** Up to when a node stamps versions of cells. All in epoch milliseconds. */
export interface StampBounds {
  /** What the last beat has said. */
  stampBound: number
  /** What earlier processes of the node have said. */
  earlierStamps: number
  /** For the next beat. */
  nextStampBound(now: number): number
  /** Of the earlier processes, if PostgreSQL does not know. */
  stampBoundAtStart(now: number): number
}

export interface MembershipParts {
  self: NodeSelf
  lease: Lease
  table: NodeTable
  guard: Pick<EpochGuard, 'check' | 'lose' | 'lost' | 'failure'>
  times: LeaseTimes
  clock: Clock
  log: Log
  /** The version of the catalog that this node has applied. */
  seenVersion(): number
  /** Its cells that were used of late. */
  busyCells(): number
  stamps: StampBounds
  /** As `Beat.backedUpTo`. */
  backedUpTo(): number | undefined
  /** Called after each beat: the catalog may have gone on. */
  headSeen(head: HeadSeen): void
  /** Whether it is not known where some nodes are that have cells: then a beat is followed by a look at all nodes. */
  lacksAddresses(): boolean
  /** Called after each answer that shows all nodes. Whoever is silent is in the watcher. */
  nodesSeen(nodes: readonly NodeRow[], watcher: Watcher): void
}

/**
 * A node among the others:
 *
 *     outside ──join──▶ member ──leave──▶ leaving ──left──▶ outside
 *                        │                   │
 *                        └───────┬───────────┘
 *                                ▼
 *                              lost: declared dead, or its fence is another node's; it answers nothing more, and its process ends
 *
 * A member beats in PostgreSQL and looks at its own fence in the bucket; each renews its part of the {@link Lease}.
 */
export class Membership {
  readonly lease: Lease
  readonly watcher: Watcher
  readonly #parts: MembershipParts
  #counter = 0
  #beatsUntilLook = 1
  /** When a beat was answered last, by the monotonic clock. */
  #answeredAt = Number.NEGATIVE_INFINITY
  #isMember = false
  #server: string | undefined
  #head: HeadSeen | undefined
  #nodes: readonly NodeRow[] = []
  #failing: { beats: boolean; looks: boolean } = { beats: false, looks: false }
  readonly #timers = new Map<string, Timer>()
  readonly #running = new Set<Promise<void>>()
  #beats: Promise<void> = Promise.resolve()

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.lease = parts.lease
    this.watcher = new Watcher(parts.clock, parts.self.id)
    parts.guard.lost.listen(() => this.#stop())
  }

  get self(): NodeSelf {
    return this.#parts.self
  }

  /** All nodes, as the last answer has shown them. */
  get nodes(): readonly NodeRow[] {
    return this.#nodes
  }

  /** Those that take part, this one included. */
  get alive(): readonly NodeRow[] {
    return this.#nodes.filter(({ state }) => state === 'alive')
  }

  /** Those that can know something of their own. */
  get others(): readonly NodeRow[] {
    return this.#nodes.filter(({ id, state }) => id !== this.self.id && state !== 'dead')
  }

  get head(): HeadSeen | undefined {
    return this.#head
  }

  /** Enters the node, and resolves after its first beat. @throws `taken_over`; what the table throws */
  async join(): Promise<void> {
    const { self, table, guard, stamps, clock } = this.#parts
    if (guard.failure !== undefined) throw guard.failure
    const joined = await table.join({ ...self, stampBound: stamps.stampBoundAtStart(clock.now()) })
    if (joined === undefined) throw takenOver(declaredDead(self.id))
    stamps.earlierStamps = joined.stampBound
    stamps.stampBound = joined.stampBound
    this.#isMember = true
    await this.beat()
    await this.#look()
    this.#repeat('beats', this.#parts.times.ttlMs, () => this.beat())
    this.#repeat('looks', this.#parts.times.fenceMs, () => this.#look())
  }

  /** Tells the others that this node gives its ranges away, or that it keeps them after all. */
  async setLeaving(leaving: boolean): Promise<void> {
    const { self, table } = this.#parts
    await table.setLeaving(self.id, self.epoch, leaving)
  }

  /** Ends beats and looks. @param removes nothing is this node's any more; otherwise its row stays, and with it what it has */
  async leave(removes: boolean): Promise<void> {
    const { self, table, log } = this.#parts
    const wasMember = this.#isMember
    this.#stop()
    await Promise.allSettled([...this.#running])
    if (!wasMember || !removes) return
    await table.remove(self.id, self.epoch).catch((err: unknown) => {
      // The others find a node that owns nothing, and take nothing over.
      log.warn({ err }, 'could not remove the row of this node from PostgreSQL')
    })
  }

  /** One beat, after one that is under way, and a look at the others. @throws what the table throws */
  beat(): Promise<void> {
    const beat = this.#beats.then(() => this.#beat())
    // A later one must not be overtaken: what it says of stamps counts.
    this.#beats = beat.catch(() => {})
    return beat
  }

  async #beat(): Promise<void> {
    const { self, table, guard, times, clock, stamps, seenVersion, busyCells, backedUpTo } = this.#parts
    const { headSeen, lacksAddresses, nodesSeen } = this.#parts
    const startedAt = momentOf(clock)
    const stampBound = stamps.nextStampBound(clock.now())
    const head = await table.beat({
      id: self.id,
      epoch: self.epoch,
      counter: ++this.#counter,
      seenVersion: seenVersion(),
      stampBound,
      busyCells: busyCells(),
      backedUpTo: backedUpTo(),
    })
    if (!this.#isMember) return
    if (head === undefined) {
      guard.lose(takenOver(declaredDead(self.id)))
      return
    }
    if (this.#server !== undefined && head.server !== this.#server) this.lease.distrustBeats()
    this.#server = head.server
    this.lease.beaten(startedAt)
    stamps.stampBound = stampBound
    this.#head = head
    if (clock.monotonic() - this.#answeredAt >= times.ttlMs) this.watcher.restart()
    this.#answeredAt = clock.monotonic()
    headSeen(head)
    if (--this.#beatsUntilLook > 0 && !lacksAddresses()) return
    const { nodes, head: of } = await table.list()
    this.#nodes = nodes
    this.watcher.saw(nodes, of.server)
    this.#beatsUntilLook = this.#isWatcher() ? 1 : BEATS_PER_LOOK
    if (this.#isMember) nodesSeen(nodes, this.watcher)
  }

  /** One of those that look with each beat. Whoever is silent is none. */
  #isWatcher(): boolean {
    const { self, times } = this.#parts
    const before = this.#nodes.filter(({ id }) => id < self.id)
    return (
      before.filter(({ id }) => (this.watcher.silentMs(id) ?? times.ttlMs) < times.ttlMs).length < WATCHERS
    )
  }

  /** Looks at this node's fence. @throws `taken_over`, what the object store throws */
  async #look(): Promise<void> {
    const startedAt = momentOf(this.#parts.clock)
    await this.#parts.guard.check()
    this.lease.looked(startedAt)
  }

  /** Each round begins so long after the one before began. */
  #repeat(kind: 'beats' | 'looks', leaseMs: number, round: () => Promise<void>): void {
    const { clock, log } = this.#parts
    const every = leaseMs / ROUNDS_PER_LEASE
    const run = async () => {
      const startedAt = clock.monotonic()
      try {
        await round()
        if (this.#failing[kind]) log.info({}, `${kind} succeed again`)
        this.#failing[kind] = false
      } catch (err) {
        if (!this.#failing[kind] && this.#isMember) log.warn({ err }, FAILED[kind])
        this.#failing[kind] = true
      }
      if (this.#isMember) next(Math.max(every - (clock.monotonic() - startedAt), every / 10))
    }
    const next = (ms: number) => {
      const timer = clock.setTimer(() => {
        const running = run().finally(() => this.#running.delete(running))
        this.#running.add(running)
      }, ms)
      this.#timers.set(kind, timer)
    }
    next(every)
  }

  #stop(): void {
    this.#isMember = false
    this.lease.end()
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }
}

const FAILED = {
  beats: 'PostgreSQL does not take the beats of this node; it serves on while the bucket answers',
  looks: 'the bucket does not show the fence of this node; it serves on while PostgreSQL answers',
}

function declaredDead(id: string): string {
  return `This node (${id}) was silent for so long that another one takes over what it had. This one serves no longer; start it again, and it joins as a new node.`
}
