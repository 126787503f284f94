import fs from 'node:fs'
import path from 'node:path'
import { DIRECTORY_MODE, FILE_MODE } from '../../base/files/durable-files.ts'
import { isCellId } from '../../base/files/store-paths.ts'

/**
 * Notes in the spool of the cells whose files are being built or removed, each an empty file. A start after a crash finds what is
 * left by them, without a look at all cells.
 */
export class BuildNotes {
  readonly #spool: string
  readonly #prefix: string

  constructor(spool: string, kind: 'new-cell' | 'restore' | 'deletion') {
    this.#spool = spool
    this.#prefix = `${kind}-`
  }

  add(cellId: string): void {
    fs.mkdirSync(this.#spool, { recursive: true, mode: DIRECTORY_MODE })
    fs.writeFileSync(this.#note(cellId), '', { mode: FILE_MODE })
  }

  /** {@link add} in the thread pool. */
  async addAside(cellId: string): Promise<void> {
    await fs.promises.mkdir(this.#spool, { recursive: true, mode: DIRECTORY_MODE })
    await fs.promises.writeFile(this.#note(cellId), '', { mode: FILE_MODE })
  }

  /** Never throws: what was built is good, and a start looks at the cell before it believes a note. */
  remove(cellId: string): void {
    try {
      fs.rmSync(this.#note(cellId), { force: true })
    } catch {
      // The next start removes it.
    }
  }

  /** The cells whose build or removal was interrupted by the end of an earlier process. Call it before the spool is emptied. */
  left(): string[] {
    const names = fs.existsSync(this.#spool) ? fs.readdirSync(this.#spool) : []
    return names
      .filter((name) => name.startsWith(this.#prefix))
      .map((name) => name.slice(this.#prefix.length))
      .filter(isCellId)
  }

  #note(cellId: string): string {
    return path.join(this.#spool, this.#prefix + cellId)
  }
}
