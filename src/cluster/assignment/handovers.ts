import type { Clock } from '../../base/clock.ts'
import { rangeOf } from '../../catalog/assignment/assignment.ts'
import type { NodeRow } from '../membership/node-table.ts'
import { batches, chooseRanges, levelingMove, type NodeLoad, shareOut } from './balance.ts'
import type { ClusterOwnership } from './cluster-ownership.ts'
import type { Mover, Target } from './mover.ts'
import { ownersOf } from './range-map.ts'

/** A move closes so many busy cells at most: requests of theirs wait meanwhile. */
const BUSY_AT_ONCE = 16

interface HandoverParts {
  self: string
  ownership: ClusterOwnership
  mover: Mover
  clock: Clock
  /** Those that take part, this one included. */
  alive(): readonly NodeRow[]
  /** Cells that were used of late. */
  busyCells(): readonly string[]
  /** Whether another node takes ranges at this moment: what is known of it can be some seconds old. */
  takes(node: NodeRow): Promise<boolean>
  /** A node has got ranges: so that it knows that at once. */
  gave(to: string): void
}

/** Decides which ranges of this node go where: to level the nodes, and when it leaves. */
export class Handovers {
  readonly #parts: HandoverParts

  constructor(parts: HandoverParts) {
    this.#parts = parts
  }

  /** What each node has to do. */
  loads(nodes: readonly NodeRow[] = this.#parts.alive()): NodeLoad[] {
    const { assignment } = this.#parts.ownership
    const owned = new Map<string, number>()
    for (const owner of assignment === undefined ? [] : ownersOf(assignment))
      owned.set(owner, (owned.get(owner) ?? 0) + 1)
    return nodes.map(({ id, busyCells }) => ({ id, busyCells, ranges: owned.get(id) ?? 0 }))
  }

  /** Whether nothing is to be moved. */
  isLevel(): boolean {
    return levelingMove(this.loads()) === undefined
  }

  /**
   * If this node is the one that has to give, gives a part of its load to the one with the least.
   *
   * @returns how many ranges went
   */
  async level(): Promise<number> {
    const { self, ownership } = this.#parts
    const move = levelingMove(this.loads())
    if (move?.from !== self || !(await this.#takes(move.to))) return 0
    const busyIn = this.#busyIn()
    return await this.#give(new Map([[move.to, chooseRanges(ownership.ranges, move.load, busyIn)]]), busyIn)
  }

  /** Gives all that this node has to the others. @returns whether nothing is left here */
  async giveAll(signal?: AbortSignal): Promise<boolean> {
    const { ownership, busyCells } = this.#parts
    for (;;) {
      if (ownership.ranges.length === 0) return true
      const heirs = this.loads(await this.#takers())
      if (heirs.length === 0 || signal?.aborted === true) return false
      await this.#give(shareOut(ownership.ranges, heirs, busyCells().length), this.#busyIn(), signal)
    }
  }

  /**
   * Says who gets what a lost node had.
   *
   * @param isHeir whether this node may be one of them
   * @param busyCells those that the lost node had
   */
  async heirs(
    isHeir: boolean,
    busyCells: number,
  ): Promise<(ranges: readonly number[]) => Map<Target, readonly number[]>> {
    const { self, alive } = this.#parts
    const takers = await this.#takers()
    const own = alive().filter(({ id }) => id === self)
    const nodes = isHeir || takers.length === 0 ? [...takers, ...own] : takers
    return (ranges) => {
      const shared = shareOut(
        ranges,
        nodes.length > 0 ? this.loads(nodes) : [{ id: self, ranges: 0, busyCells: 0 }],
        busyCells,
      )
      return new Map([...shared].map(([id, each]) => [this.#target(id), each]))
    }
  }

  /** The other nodes that take ranges now. */
  async #takers(): Promise<NodeRow[]> {
    const { self, alive, takes } = this.#parts
    const others = alive().filter(({ id }) => id !== self)
    const answers = await Promise.all(others.map(takes))
    return others.filter((_, i) => answers[i])
  }

  async #takes(id: string): Promise<boolean> {
    const node = this.#parts.alive().find((each) => each.id === id)
    return node !== undefined && (await this.#parts.takes(node))
  }

  async #give(
    shared: ReadonlyMap<string, readonly number[]>,
    busyIn: (range: number) => number,
    signal?: AbortSignal,
  ): Promise<number> {
    let given = 0
    for (const [id, ranges] of shared) {
      for (const batch of batches(ranges, busyIn, BUSY_AT_ONCE)) {
        if (signal?.aborted === true) return given
        given += await this.#parts.mover.move(batch, this.#target(id))
        this.#parts.gave(id)
      }
    }
    return given
  }

  /** @throws if it is not known: a node that was there a moment ago */
  #target(id: string): Target {
    const node = this.#parts.alive().find((each) => each.id === id)
    return { id, prefix: node?.prefix ?? this.#parts.ownership.assignment?.prefixes[id] ?? `nodes/${id}/` }
  }

  #busyIn(): (range: number) => number {
    const busy = new Map<number, number>()
    for (const cellId of this.#parts.busyCells())
      busy.set(rangeOf(cellId), (busy.get(rangeOf(cellId)) ?? 0) + 1)
    return (range) => busy.get(range) ?? 0
  }
}
