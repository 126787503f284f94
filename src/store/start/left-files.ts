import fs from 'node:fs'
import path from 'node:path'
import { discardRestored } from '../../backup/restore/install/restore-install.ts'
import { exists } from '../../base/files/durable-files.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import { isUnreadable } from '../../base/files/unreadable.ts'
import type { Log } from '../../base/log.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'
import type { BuildNotes } from './build-notes.ts'

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
