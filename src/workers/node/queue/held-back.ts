import type { QueuedOperation } from '../dispatch/queued-operation.ts'

/**
 * Operations that a worker has sent back, since a hold has their cell: they wait for its end. Meanwhile no turn is theirs, and nothing
 * that runs is in their way.
 */
export class HeldBack {
  readonly #cells = new Map<string, QueuedOperation[]>()
  #size = 0
  #bytes = 0

  get size(): number {
    return this.#size
  }

  get bytes(): number {
    return this.#bytes
  }

  get cells(): string[] {
    return [...this.#cells.keys()]
  }

  /** How many wait for one cell. */
  countOf(cellId: string): number {
    return this.#cells.get(cellId)?.length ?? 0
  }

  add(operation: QueuedOperation): void {
    const waiting = this.#cells.get(operation.cellId)
    if (waiting === undefined) this.#cells.set(operation.cellId, [operation])
    else waiting.push(operation)
    this.#size++
    this.#bytes += operation.bytes
  }

  /** Removes and returns those of a cell, in order. */
  take(cellId: string): QueuedOperation[] {
    const taken = this.#cells.get(cellId) ?? []
    this.#cells.delete(cellId)
    this.#size -= taken.length
    for (const { bytes } of taken) this.#bytes -= bytes
    return taken
  }

  *ofAccount(accountId: string): Generator<QueuedOperation> {
    for (const waiting of this.#cells.values()) if (waiting[0]?.accountId === accountId) yield* waiting
  }

  /** @param isOver also settles what has waited too long */
  removeAll(isOver: (operation: QueuedOperation) => boolean): void {
    for (const cellId of this.cells) for (const each of this.take(cellId)) if (!isOver(each)) this.add(each)
  }
}
