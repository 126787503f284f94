import type { Clock } from '../../base/clock.ts'
import type { QueuedOperation } from './operation-queue.ts'
import type { WorkerSlot } from './worker-slot.ts'

export interface IsolatedSlotsParts {
  clock: Clock
  /** WorkerPool that they may have at once; the cells beyond wait for one to become free. */
  workersMax: number
  /** Milliseconds that a cell stays after its last offence. */
  isolationMs: number
  /** How long a worker may take to close its cell, in milliseconds. */
  closeMs: number
  newSlot(): WorkerSlot
  /** Gives a slot its worker. */
  equip(slot: WorkerSlot): Promise<void>
  /** A cell has gone home, and takes with it what waits. */
  onHome(operations: readonly QueuedOperation[]): void
}

interface IsolatedSlot {
  slot: WorkerSlot
  lastStrikeAt: number
  /** A worker is on its way. */
  isEquipping: boolean
}

/** The cells whose statements hold up their neighbours: each has a slot of its own for a while. */
export class IsolatedSlots {
  readonly #parts: IsolatedSlotsParts
  readonly #cells = new Map<string, IsolatedSlot>()

  constructor(parts: IsolatedSlotsParts) {
    this.#parts = parts
  }

  get slots(): WorkerSlot[] {
    return [...this.#cells.values()].map(({ slot }) => slot)
  }

  of(cellId: string): WorkerSlot | undefined {
    return this.#cells.get(cellId)?.slot
  }

  /** A statement of the cell had to be ended: from here on it is isolated, and the time starts again. */
  set(cellId: string): WorkerSlot {
    const now = this.#parts.clock.monotonic()
    const known = this.#cells.get(cellId)
    if (known !== undefined) known.lastStrikeAt = now
    else this.#cells.set(cellId, { slot: this.#parts.newSlot(), lastStrikeAt: now, isEquipping: false })
    this.equip()
    return (this.#cells.get(cellId) as IsolatedSlot).slot
  }

  /** Cells that have behaved go home; a worker that has become free goes to one that waits for it. */
  tidy(): void {
    const now = this.#parts.clock.monotonic()
    const isAwaited = [...this.#cells.values()].some(
      ({ slot, isEquipping }) => slot.worker === undefined && !isEquipping,
    )
    for (const [cellId, { slot, lastStrikeAt }] of this.#cells) {
      if (slot.worker === undefined || slot.stopping || !slot.idle) continue
      if (isAwaited || now - lastStrikeAt > this.#parts.isolationMs) void this.#sendHome(cellId, slot)
    }
    this.equip()
  }

  /** Gives workers to slots that wait for one, as far as their number allows. */
  equip(): void {
    const all = [...this.#cells.values()]
    let equipped = all.filter(({ slot, isEquipping }) => isEquipping || slot.worker !== undefined).length
    for (const isolated of all) {
      const { slot } = isolated
      if (equipped >= this.#parts.workersMax) return
      if (slot.worker !== undefined || slot.stopping || isolated.isEquipping) continue
      equipped++
      isolated.isEquipping = true
      void this.#parts.equip(slot).then(() => {
        isolated.isEquipping = false
        slot.worker?.yieldToOthers()
      })
    }
  }

  /** Its worker closes the cell before any other opens it (invariant 2). */
  async #sendHome(cellId: string, slot: WorkerSlot): Promise<void> {
    const { clock, closeMs, onHome } = this.#parts
    const timer = clock.setTimer(() => slot.worker?.kill(), closeMs)
    await slot.stop()
    timer.cancel()
    this.#cells.delete(cellId)
    onHome(slot.retire())
  }
}
