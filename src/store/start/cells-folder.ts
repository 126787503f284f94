import fs from 'node:fs'
import { HAS_CELLS_KEY, type LocalState } from '../../catalog/local-state.ts'
import { CellError } from '../../errors.ts'
import { orNoRoom } from '../open/cell-files.ts'

/** Its name, and its own entry for itself. */
const LINKS_OF_EMPTY = 2

/**
 * The folder that holds the files of all cells. If it was here with cells and is gone or empty now, its disk is not
 * mounted: then no cell may be taken for lost, set back to its newest backup, or made next to cells that are not seen.
 */
export class CellsFolder {
  readonly #path: string
  readonly #state: LocalState
  #isNoted = false

  constructor(path: string, state: LocalState) {
    this.#path = path
    this.#state = state
  }

  /** Call when the folder has a cell. @throws `disk_full` */
  noteCell(): void {
    if (this.#isNoted) return
    try {
      this.#state.set(HAS_CELLS_KEY, 'yes')
    } catch (error) {
      throw orNoRoom(error)
    }
    this.#isNoted = true
  }

  /** Call at a start: a directory of an earlier cellstore has cells and no note. @throws as {@link assertHere} */
  check(): void {
    this.assertHere()
    if (!this.#isEmpty()) this.noteCell()
  }

  /** @throws `cells_missing` if the folder had cells and has nothing now */
  assertHere(): void {
    if (this.#state.get(HAS_CELLS_KEY) === undefined || !this.#isEmpty()) return
    throw new CellError(
      'cells_missing',
      'The folder of all cells is empty or gone, although cells were in it: its disk may not be mounted. Mount it. Only if it is lost, stop the node and remove local.db: then each cell is restored from its newest backup.',
    )
  }

  /** Folders of deleted cells leave their parents, so a folder that was used is not empty. */
  #isEmpty(): boolean {
    try {
      // Most file systems count the folders of a folder among its links: reading them takes longer, and each creation asks.
      if (fs.statSync(this.#path).nlink > LINKS_OF_EMPTY) return false
      const folder = fs.opendirSync(this.#path)
      try {
        return folder.readSync() === null
      } finally {
        folder.closeSync()
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return true
    }
  }
}
