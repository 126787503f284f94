import { backOffMs, rest } from '../../base/async/back-off.ts'
import type { Clock } from '../../base/clock.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { RestoredMark } from '../versions/object-keys.ts'
import { removeMarks } from './install/restored-mark.ts'

const BACK_OFF = { minMs: 1_000, maxMs: 60_000 }

export interface RefusedRestoresParts {
  objectStore: ObjectStore
  /** As in `CellPort`. */
  needsBase(cellId: string): Promise<void>
  clock: Clock
}

/**
 * Cells whose restore was refused after their history had ended. Each gets a version: it begins a new history, and a mark that
 * is stored all the same, or arrives late, is older and counts no more. Until then a mark that stays is what a total loss would
 * bring back, so its removal is tried, too.
 */
export class RefusedRestores {
  readonly #parts: RefusedRestoresParts
  readonly #running = new Set<Promise<void>>()
  readonly #abort = new AbortController()
  #deadline: AbortSignal | undefined

  constructor(parts: RefusedRestoresParts) {
    this.#parts = parts
  }

  /** @param marks those that may be stored */
  add(cellId: string, marks: readonly RestoredMark[]): void {
    const running = this.#mend(cellId, marks).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Marks that may be stored are tried to be removed once more, until the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#deadline = deadline
    this.#abort.abort()
    await Promise.all(this.#running)
  }

  async #mend(cellId: string, marks: readonly RestoredMark[]): Promise<void> {
    const { objectStore, needsBase, clock } = this.#parts
    const outdated = new AbortController()
    needsBase(cellId).then(
      () => outdated.abort(),
      // The store is being closed, or the cell is gone, and may be restored: its marks must go.
      () => {},
    )
    const signal = AbortSignal.any([this.#abort.signal, outdated.signal])
    let left = marks
    for (let failures = 0; left.length > 0 && !signal.aborted; failures++) {
      left = await removeMarks(objectStore, left, { signal })
      if (left.length > 0) await rest(clock, backOffMs(failures, BACK_OFF), signal)
    }
    if (left.length > 0 && !outdated.signal.aborted)
      await removeMarks(objectStore, left, { signal: this.#deadline })
  }
}
