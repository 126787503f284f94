import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import { CellError } from '../../../errors.ts'

/** Who stores notes of a cell, and who purges it: never both. A note that came after the purge's listing would stay for good. */
export class NotesInProgress {
  readonly #purged = new Set<string>()
  readonly #writes = new Set<{ cellId: string; ended: Promise<unknown> }>()

  /** @throws `busy` during a purge of the cell */
  async write<T>(cellId: string, write: () => Promise<T>): Promise<T> {
    if (this.#purged.has(cellId)) throw purgeInProgress()
    const written = write()
    const mine = { cellId, ended: written.catch(() => {}) }
    this.#writes.add(mine)
    try {
      return await written
    } finally {
      this.#writes.delete(mine)
    }
  }

  /** Waits for what is being written. @throws the signal's reason */
  async purge<T>(cellId: string, purge: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    this.#purged.add(cellId)
    try {
      const own = [...this.#writes].filter((each) => each.cellId === cellId)
      await unlessAborted(Promise.all(own.map(({ ended }) => ended)), signal)
      return await purge()
    } finally {
      this.#purged.delete(cellId)
    }
  }
}

export function purgeInProgress(): CellError {
  return new CellError('busy', 'What is left of this cell is being purged.')
}
