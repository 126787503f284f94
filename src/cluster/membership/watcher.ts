import type { Clock } from '../../base/clock.ts'
import type { NodeRow, WatchedBeat } from './node-table.ts'

interface Watch extends WatchedBeat {
  /** When the first answer came that showed this beat, by the monotonic clock. */
  since: number
}

/** A node that has not beaten for a while. */
export interface SilentNode {
  watched: WatchedBeat
  silentMs: number
}

/**
 * Knows which nodes have not beaten for how long. A beat is seen when the *answer* with it comes, while its node counts from the
 * start of the call. Another server may show an old counter again, so each server begins a new watch.
 */
export class Watcher {
  readonly #clock: Clock
  readonly #self: string
  readonly #watches = new Map<string, Watch>()

  constructor(clock: Clock, self: string) {
    this.#clock = clock
    this.#self = self
  }

  /** @param rows of all nodes, from an answer that came just now */
  saw(rows: readonly NodeRow[], server: string): void {
    const now = this.#clock.monotonic()
    const watched = rows.filter(({ id, state }) => id !== this.#self && state !== 'dead')
    for (const { id, epoch, counter } of watched) {
      const known = this.#watches.get(id)
      if (known?.epoch === epoch && known.counter === counter && known.server === server) continue
      this.#watches.set(id, { id, epoch, counter, server, since: now })
    }
    const ids = new Set(watched.map(({ id }) => id))
    for (const id of this.#watches.keys()) if (!ids.has(id)) this.#watches.delete(id)
  }

  /** Nobody could be seen for a while: what was seen before says nothing, since the others could not beat either. */
  restart(): void {
    this.#watches.clear()
  }

  /** Those that have not beaten for at least so many milliseconds, the longest silent first. */
  silent(ms: number): SilentNode[] {
    const now = this.#clock.monotonic()
    return [...this.#watches.values()]
      .map(({ since, ...watched }) => ({ watched, silentMs: now - since }))
      .filter(({ silentMs }) => silentMs >= ms)
      .sort((a, b) => b.silentMs - a.silentMs)
  }

  /** Milliseconds since its last beat was seen; undefined for a node that is not watched. */
  silentMs(id: string): number | undefined {
    const watch = this.#watches.get(id)
    return watch && this.#clock.monotonic() - watch.since
  }
}
