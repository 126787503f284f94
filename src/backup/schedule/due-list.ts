import type { BaseReason } from '../changes/base-reason.ts'
import type { BackupKind } from '../versions/backup-types.ts'

/** A cell's next backup. */
export interface Due {
  cellId: string
  kind: BackupKind
  /** Epoch milliseconds. */
  at: number
  /** Undefined if only an interval is over. */
  reason: BaseReason | undefined
}

/** The next backup of each cell, earliest first. */
export class DueList {
  /** Sorted by time. */
  readonly #list: Due[] = []
  readonly #byCell = new Map<string, Due>()

  get first(): Due | undefined {
    return this.#list[0]
  }

  /** Replaces the cell's earlier entry. */
  put(due: Due): void {
    this.remove(due.cellId)
    this.#byCell.set(due.cellId, due)
    this.#list.splice(this.#placeOf(due.at), 0, due)
  }

  /** Removes and returns what is due now. */
  takeDue(now: number): Due[] {
    const due = this.#list.splice(0, this.#placeOf(now))
    for (const { cellId } of due) this.#byCell.delete(cellId)
    return due
  }

  remove(cellId: string): void {
    const known = this.#byCell.get(cellId)
    if (known === undefined) return
    this.#byCell.delete(cellId)
    this.#list.splice(this.#list.indexOf(known), 1)
  }

  /** After all entries of the same time, so that each cell gets its turn. */
  #placeOf(at: number): number {
    let low = 0
    let high = this.#list.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#list[middle] as Due).at <= at) low = middle + 1
      else high = middle
    }
    return low
  }
}
