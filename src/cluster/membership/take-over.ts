import type { LogNumber } from '../../backup/versions/object-keys.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ForeignPrefix } from './foreign-prefix.ts'
import type { LeaseTimes } from './lease.ts'
import type { NodeRow, NodeTable } from './node-table.ts'
import type { SilentNode } from './watcher.ts'

/** Where a node's tenures end that it did not end itself. */
export interface TakenEnd {
  node: string
  lastLog: LogNumber | null
  /** Epoch milliseconds: the node stamped no version beyond that. */
  stampBound: number
}

export interface TakeOverParts {
  table: NodeTable
  times: LeaseTimes
  clock: Clock
  log: Log
  /** The node's part of the bucket. */
  prefixOf(node: NodeRow): Pick<ForeignPrefix, 'hasEnded' | 'fence' | 'lastLog'>
  /** Whether the node itself answers at its address within a short time. */
  answers(node: NodeRow): Promise<boolean>
  /** Gives the node's ranges to others, in the bucket and then in the catalog. Nothing to do if it has none any more. */
  reassign(end: TakenEnd): Promise<void>
}

/** A node whose process is known to have ended is taken over after this share of the time to live: it may be started again. */
const ENDED_SHARE = 5 / 6

/**
 * Takes a silent node's ranges, so that no two nodes ever answer for one of them:
 *
 *     silent ──no answer──▶ declared dead ──▶ fenced ──waited L──▶ still dead ──▶ reassigned ──▶ row removed
 *                                ▲                        │ PostgreSQL has forgotten it
 *                                └────────────────────────┘
 *
 * It beats no more once it is declared dead, every look that begins after the fence sees that, and older leases have ended by the
 * wait. A taker that ends on the way leaves a dead row, from which another one goes on.
 */
export class TakeOver {
  readonly #parts: TakeOverParts
  readonly #running = new Set<string>()

  constructor(parts: TakeOverParts) {
    this.#parts = parts
  }

  /** How long a node has to be silent before {@link take} looks at it. Milliseconds. */
  get silentMs(): number {
    return this.#parts.times.ttlMs * ENDED_SHARE
  }

  /** Whether a node is being taken over here. */
  isRunning(id: string): boolean {
    return this.#running.has(id)
  }

  /** @returns whether the node has nothing any more @throws what PostgreSQL or the object store throws */
  async take(node: NodeRow, silent: SilentNode): Promise<boolean> {
    return await this.#once(node.id, async () => {
      const { table, times, log, answers, prefixOf } = this.#parts
      if (await answers(node)) return false
      const prefix = prefixOf(node)
      const hasEnded = await prefix.hasEnded()
      if (!hasEnded && silent.silentMs < times.ttlMs) return false
      if (!(await table.declareDead(silent.watched))) return false
      log.warn({ node: node.id, address: node.address, hasEnded }, 'a node is silent: it is taken over')
      return await this.#finish(node, silent.watched.server, hasEnded)
    })
  }

  /** Goes on with a node that another one has declared dead. */
  async resume(node: NodeRow, server: string): Promise<boolean> {
    return await this.#once(node.id, async () => {
      const hasEnded = await this.#parts.prefixOf(node).hasEnded()
      return await this.#finish(node, server, hasEnded)
    })
  }

  async #finish(node: NodeRow, server: string, hasEnded: boolean): Promise<boolean> {
    const { table, times, clock, log, prefixOf, reassign } = this.#parts
    const prefix = prefixOf(node)
    const fence = await prefix.fence()
    // From the answer on: the node may have looked as long as the PUT ran.
    if (!hasEnded) await delay(clock, times.fenceMs)
    const lastLog = await prefix.lastLog(fence)
    if (!(await this.#isStillDead(node, server))) return false
    await reassign({ node: node.id, lastLog, stampBound: node.stampBound })
    await table.remove(node.id, node.epoch, clock.now())
    log.warn({ node: node.id, lastLog }, 'a node was taken over: others have its cells')
    return true
  }

  /** If PostgreSQL has forgotten that, the node may have beaten, and by that it may answer. */
  async #isStillDead({ id, epoch }: NodeRow, server: string): Promise<boolean> {
    const { nodes, head } = await this.#parts.table.list()
    const row = nodes.find((each) => each.id === id)
    return head.server === server && (row === undefined || (row.state === 'dead' && row.epoch === epoch))
  }

  async #once(id: string, run: () => Promise<boolean>): Promise<boolean> {
    if (this.#running.has(id)) return false
    this.#running.add(id)
    try {
      return await run()
    } finally {
      this.#running.delete(id)
    }
  }
}
