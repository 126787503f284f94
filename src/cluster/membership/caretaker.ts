import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import type { LeaseTimes } from './lease.ts'
import type { NodeRow } from './node-table.ts'
import type { TakeOver } from './take-over.ts'
import type { Watcher } from './watcher.ts'

interface CaretakerParts {
  self: string
  takeOver: TakeOver
  times: LeaseTimes
  clock: Clock
  log: Log
  random: () => number
  assignment(): Assignment | undefined
  /** Epoch milliseconds, later than all that a node of unknown past can have stamped. */
  latestStamp(): number
}

/**
 * Looks after nodes that are silent, nodes that somebody has declared dead and not finished, and owners that PostgreSQL does not know any
 * more. All nodes do it; that only one succeeds is `TakeOver`'s matter.
 */
export class Caretaker {
  readonly #parts: CaretakerParts
  /** Since when such a node is to be finished, by the monotonic clock. */
  readonly #unfinished = new Map<string, number>()

  constructor(parts: CaretakerParts) {
    this.#parts = parts
  }

  /** @param server the one that has shown the nodes */
  look(nodes: readonly NodeRow[], watcher: Watcher, server: string): void {
    const { takeOver } = this.#parts
    for (const silent of watcher.silent(takeOver.silentMs)) {
      const node = nodes.find(({ id }) => id === silent.watched.id)
      if (node !== undefined) this.#begin(node, () => takeOver.take(node, silent))
    }
    const left = [...nodes.filter(({ state }) => state === 'dead'), ...this.#unknownOwners(nodes)]
    for (const node of left) if (this.#isDue(node.id)) this.#begin(node, () => takeOver.resume(node, server))
    const ids = new Set(left.map(({ id }) => id))
    for (const id of this.#unfinished.keys()) if (!ids.has(id)) this.#unfinished.delete(id)
  }

  /** PostgreSQL has forgotten them, or they were never there. They can beat no more. */
  #unknownOwners(nodes: readonly NodeRow[]): NodeRow[] {
    const { assignment, self, latestStamp } = this.#parts
    const known = new Set([self, ...nodes.map(({ id }) => id)])
    return Object.entries(assignment()?.prefixes ?? {})
      .filter(([id]) => !known.has(id))
      .map(([id, prefix]) => ({
        id,
        prefix,
        address: '',
        epoch: 0,
        counter: 0,
        state: 'dead',
        seenVersion: 0,
        stampBound: latestStamp(),
        busyCells: 0,
        startedAt: 0,
      }))
  }

  /** Whoever has declared it dead needs no help for as long as a take-over takes; of the others, one is first by chance. */
  #isDue(id: string): boolean {
    const { clock, times, random } = this.#parts
    const now = clock.monotonic()
    const due = this.#unfinished.get(id) ?? now + times.ttlMs + times.fenceMs + random() * times.ttlMs
    this.#unfinished.set(id, due)
    return now >= due
  }

  #begin(node: NodeRow, run: () => Promise<boolean>): void {
    if (this.#parts.takeOver.isRunning(node.id)) return
    run().catch((err: unknown) => {
      this.#parts.log.warn({ err, node: node.id }, 'could not take over a node; trying again')
    })
  }
}
