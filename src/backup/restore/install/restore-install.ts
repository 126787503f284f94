import fs from 'node:fs'
import path from 'node:path'
import { exists, fsyncDirectory, makeDirectory, writeNewFile } from '../../../base/files/durable-files.ts'
import type { CellPaths } from '../../../base/files/store-paths.ts'

/**
 * The switch from a cell's database to a restored one (invariant 10). The caller has closed the cell. After a crash,
 * {@link finishRestore} completes the switch if the intent exists, and otherwise removes `incoming.db`:
 *
 *     files on disk after each step            incoming.db  restore-intent  database      after a crash here
 *     0. the restore builds its database       partial      –               old, its WAL  the old cell
 *     1. it is proven and fsynced, its name    whole        –               old, its WAL  the old cell
 *        is durable
 *     2. the intent is durable                 whole        yes             old, its WAL  the restored cell
 *     3. the old WAL, -shm, journal and the    whole        yes             old           the restored cell
 *        kept segments are removed
 *     4. incoming.db is renamed, durably       –            yes             restored      the restored cell
 *     5. the intent is removed                 –            –               restored      the restored cell
 *
 * Step 3 comes before step 4, because SQLite would apply an old WAL or journal to the new file. The segments belong to
 * the old history.
 *
 * If nothing is left of the cell, step 4 alone is the switch.
 */
export function installRestored(paths: CellPaths): void {
  if (isLost(paths)) {
    installLost(paths)
    return
  }
  try {
    fsyncDirectory(paths.directory)
    writeNewFile(paths.restoreIntent, Buffer.from('switch to incoming.db\n'))
    fsyncDirectory(paths.directory)
  } catch (error) {
    try {
      withdraw(paths)
    } catch {
      // finishRestore handles the rest before the cell is opened.
    }
    throw error
  }
  // If this fails, the switch is still decided: the next open of the cell completes it.
  freeingLater(paths.database, () => finishRestore(paths))
}

/** There is nothing that a switch would have to keep or to remove. */
function isLost({ database, segments, restoreIntent }: CellPaths): boolean {
  return ![database, ...besides(database), segments, restoreIntent].some(exists)
}

/**
 * The file is fsynced, so the name is all that is missing. A crash leaves the cell lost, as it was, or restored. If a crash
 * comes between the two steps, nothing repeats the second: SQLite syncs the folder with the first log in it, before it commits.
 */
function installLost(paths: CellPaths): void {
  fs.renameSync(paths.restoreTarget, paths.database)
  syncFolders(paths)
}

/**
 * Replaces a file without a wait for the release of its blocks, which takes long for a large file: an open descriptor
 * keeps them, and another thread closes it. If the replacement fails, the file may be opened next, so the descriptor is
 * closed at once (invariant 4).
 */
function freeingLater(file: string, replace: () => void): void {
  const fd = openIfPossible(file)
  try {
    replace()
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd)
    throw error
  }
  if (fd !== undefined) fs.close(fd, () => {})
}

function openIfPossible(file: string): number | undefined {
  try {
    return fs.openSync(file, 'r')
  } catch {
    return undefined
  }
}

/**
 * Completes a switch that was decided, and removes the files of one that was not. Called before a cell is opened.
 *
 * @param options.building a restore is building `incoming.db` right now: without an intent the file stays
 */
export function finishRestore(paths: CellPaths, { building = false }: { building?: boolean } = {}): void {
  if (!exists(paths.restoreIntent)) {
    if (!building && exists(paths.restoreTarget)) removeUnfinished(paths)
    return
  }
  const databaseDirectory = path.dirname(paths.database)
  // Without incoming.db, the crash came after the rename, and WAL and journal belong to the restored database.
  if (exists(paths.restoreTarget)) {
    for (const file of besides(paths.database)) fs.rmSync(file, { force: true })
    fs.rmSync(paths.segments, { recursive: true, force: true })
    makeDirectory(databaseDirectory)
    fsyncDirectory(databaseDirectory)
    fs.renameSync(paths.restoreTarget, paths.database)
  }
  syncFolders(paths)
  fs.rmSync(paths.restoreIntent)
  fsyncDirectory(paths.directory)
}

/** Whether the built database has taken the place of the cell's, or will. Neither is there if the cell was deleted meanwhile. */
export function isSwitchBegun({ restoreIntent, restoreTarget, database }: CellPaths): boolean {
  return exists(restoreIntent) || (exists(database) && !exists(restoreTarget))
}

/** Removes a built database that is not to be installed, unless its switch is decided already. */
export function discardRestored(paths: CellPaths): void {
  if (exists(paths.restoreIntent)) return
  removeUnfinished(paths)
  try {
    // Of a deleted cell, the restore has made it.
    fs.rmdirSync(paths.directory)
  } catch {
    // It holds the cell.
  }
}

export function removeUnfinished({ restoreTarget }: CellPaths): void {
  for (const file of [restoreTarget, ...besides(restoreTarget)]) fs.rmSync(file, { force: true })
}

/** What SQLite keeps next to a database. */
function besides(database: string): string[] {
  return ['-wal', '-shm', '-journal'].map((suffix) => database + suffix)
}

/** The folders of the database and of `incoming.db`: one, but for the catalog. */
function syncFolders({ database, directory }: CellPaths): void {
  for (const folder of new Set([path.dirname(database), directory])) fsyncDirectory(folder)
}

/** Durably: an intent without its `incoming.db`, which the caller removes, would look like a finished rename. */
function withdraw(paths: CellPaths): void {
  fs.rmSync(paths.restoreIntent, { force: true })
  fsyncDirectory(paths.directory)
}
