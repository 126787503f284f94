import { isCellError } from '../../errors.ts'
import type { BuildNotes } from './build-notes.ts'

/**
 * New cells whose files are being built: a build can take long, and the catalog has the cell only after its end. A start after a
 * crash removes the files that belong to no cell.
 */
export class UnfinishedCells {
  readonly #notes: BuildNotes

  constructor(notes: BuildNotes) {
    this.#notes = notes
  }

  /** @param make makes the cell's files and its record; if it fails, it leaves neither */
  async during<T>(cellId: string, make: () => Promise<T>): Promise<T> {
    this.#notes.add(cellId)
    try {
      const made = await make()
      this.#notes.remove(cellId)
      return made
    } catch (error) {
      // If the catalog's disk failed, only the next start can tell whether the record is there.
      if (!isCellError(error, 'cell_quarantined')) this.#notes.remove(cellId)
      throw error
    }
  }
}
