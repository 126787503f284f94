import type { Clock } from '../../base/clock.ts'
import type { QueuedOperation } from './operation-queue.ts'
import type { Lane } from './worker-slot.ts'

export interface ApartLanesParts {
  clock: Clock
  /** Hosts that they may have at once; the cells beyond wait for one to become free. */
  hostsMax: number
  /** Milliseconds that a cell stays after its last offence. */
  apartMs: number
  /** How long a host may take to close its cell, in milliseconds. */
  closeMs: number
  newLane(): Lane
  /** Gives a lane its host. */
  equip(lane: Lane): Promise<void>
  /** A cell has gone home, and takes with it what waits. */
  onHome(operations: readonly QueuedOperation[]): void
}

interface Apart {
  lane: Lane
  lastOffenceAt: number
  /** A host is on its way. */
  isEquipping: boolean
}

/** The cells whose statements hold up their neighbours: each has a lane of its own for a while. */
export class ApartLanes {
  readonly #parts: ApartLanesParts
  readonly #cells = new Map<string, Apart>()

  constructor(parts: ApartLanesParts) {
    this.#parts = parts
  }

  get lanes(): Lane[] {
    return [...this.#cells.values()].map(({ lane }) => lane)
  }

  of(cellId: string): Lane | undefined {
    return this.#cells.get(cellId)?.lane
  }

  /** The cell has offended: from here on it is apart, for a time that begins anew. */
  set(cellId: string): Lane {
    const now = this.#parts.clock.monotonic()
    const known = this.#cells.get(cellId)
    if (known !== undefined) known.lastOffenceAt = now
    else this.#cells.set(cellId, { lane: this.#parts.newLane(), lastOffenceAt: now, isEquipping: false })
    this.equip()
    return (this.#cells.get(cellId) as Apart).lane
  }

  /** Cells that have behaved go home; a host that has become free goes to one that waits for it. */
  tidy(): void {
    const now = this.#parts.clock.monotonic()
    const isAwaited = [...this.#cells.values()].some(
      ({ lane, isEquipping }) => lane.host === undefined && !isEquipping,
    )
    for (const [cellId, { lane, lastOffenceAt }] of this.#cells) {
      if (lane.host === undefined || lane.stopping || !lane.idle) continue
      if (isAwaited || now - lastOffenceAt > this.#parts.apartMs) void this.#sendHome(cellId, lane)
    }
    this.equip()
  }

  /** Gives hosts to lanes that wait for one, as far as their number allows. */
  equip(): void {
    const all = [...this.#cells.values()]
    let equipped = all.filter(({ lane, isEquipping }) => isEquipping || lane.host !== undefined).length
    for (const apart of all) {
      const { lane } = apart
      if (equipped >= this.#parts.hostsMax) return
      if (lane.host !== undefined || lane.stopping || apart.isEquipping) continue
      equipped++
      apart.isEquipping = true
      void this.#parts.equip(lane).then(() => {
        apart.isEquipping = false
        lane.host?.yieldToOthers()
      })
    }
  }

  /** Its host closes the cell before any other opens it (invariant 2). */
  async #sendHome(cellId: string, lane: Lane): Promise<void> {
    const { clock, closeMs, onHome } = this.#parts
    const timer = clock.setTimer(() => lane.host?.kill(), closeMs)
    await lane.stop()
    timer.cancel()
    this.#cells.delete(cellId)
    onHome(lane.retire())
  }
}
