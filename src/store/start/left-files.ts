import fs from 'node:fs'
import path from 'node:path'
import { discardRestored } from '../../backup/restore/install/restore-install.ts'
import { DIRECTORY_MODE, exists, FILE_MODE } from '../../base/files/durable-files.ts'
import { isCellId, type StorePaths } from '../../base/files/store-paths.ts'
import { isUnreadable } from '../../base/files/unreadable.ts'
import type { Log } from '../../base/log.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import { isCellError } from '../../errors.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'

export interface LeftFilesParts {
  registry: CellRegistry
  files: CellFiles
  unreadable: UnreadableCells
  paths: StorePaths
  log: Log
  newCells: BuildNotes
  restoreNotes: BuildNotes
  deletionNotes: BuildNotes
  /** The catalog came back from a backup, and may not know what became of a cell. */
  isOldCatalog: boolean
}

/**
 * Removes what an earlier process left unfinished: files of cells by its notes, then the rest of the spool. What can't be removed stays,
 * with its note, for the next start.
 *
 * @throws what the file system throws, unless it is about a bad block or the like
 */
export function removeLeftFiles(parts: LeftFilesParts): void {
  const { registry, files, unreadable, paths, newCells, restoreNotes, deletionNotes, isOldCatalog } = parts
  const unknown = newCells.left().filter((id) => registry.find(id) === undefined)
  const restored = restoreNotes.left()
  for (const id of restored) unreadable.look(id, () => discardRestored(paths.cell(id)))
  const isDeleted = (id: string) => (registry.find(id)?.deletedAt ?? null) !== null
  // A deleted cell can be forgotten. What else the catalog does not know is for a person to look at.
  const isGone = (id: string) => isDeleted(id) || registry.find(id) === undefined
  const removed = [...unknown, ...restored.filter(isDeleted), ...deletionNotes.left().filter(isGone)]
  for (const id of isOldCatalog ? [] : removed) unreadable.look(id, () => files.remove(id))
  const kept = [...restored, ...removed].filter((id) => unreadable.state(id) !== undefined)
  emptySpool(parts, kept)
}

/** @param kept the cells whose notes stay */
function emptySpool({ paths: { spool }, log }: LeftFilesParts, kept: readonly string[]): void {
  for (const name of exists(spool) ? fs.readdirSync(spool) : []) {
    if (kept.some((id) => name.endsWith(id))) continue
    const entry = path.join(spool, name)
    try {
      fs.rmSync(entry, { recursive: true, force: true })
    } catch (err) {
      // The files of a deleted cell may be on a bad block, which must not hold up the start.
      if (!isUnreadable(err)) throw err
      log.warn({ err, entry }, 'could not remove what an earlier process left in the spool')
    }
  }
}

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
