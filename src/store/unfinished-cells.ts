import fs from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { DIRECTORY_MODE, FILE_MODE } from '../base/durable-files.ts'
import { isCellId } from '../base/store-paths.ts'
import { isCellError } from '../errors.ts'

const PREFIX = 'new-cell-'

/**
 * Notes in the spool of the cells whose files are being built: a build can take long, and the catalog has the cell only
 * after its end. A start after a crash removes the files that belong to no cell.
 */
export class UnfinishedCells {
  readonly #spool: string

  constructor(spool: string) {
    this.#spool = spool
  }

  /** @param make makes the cell's files and its record; if it fails, it leaves neither */
  async during<T>(cellId: string, make: () => Promise<T>): Promise<T> {
    const note = path.join(this.#spool, PREFIX + cellId)
    fs.mkdirSync(this.#spool, { recursive: true, mode: DIRECTORY_MODE })
    await writeFile(note, '', { mode: FILE_MODE })
    try {
      const made = await make()
      await rm(note, { force: true })
      return made
    } catch (error) {
      // If the catalog's disk failed, only the next start can tell whether the record is there.
      if (!isCellError(error, 'cell_quarantined')) await rm(note, { force: true })
      throw error
    }
  }

  /** The cells whose build was interrupted by the end of an earlier process. Call it before the spool is emptied. */
  left(): string[] {
    const names = fs.existsSync(this.#spool) ? fs.readdirSync(this.#spool) : []
    return names
      .filter((name) => name.startsWith(PREFIX))
      .map((name) => name.slice(PREFIX.length))
      .filter(isCellId)
  }
}
