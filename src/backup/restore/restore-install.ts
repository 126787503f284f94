import fs from 'node:fs'
import path from 'node:path'
import { exists, fsyncDirectory, makeDirectory, writeNewFile } from '../../base/durable-files.ts'
import type { CellPaths } from '../../base/store-paths.ts'

/**
 * The switch from a cell's database to a restored one (invariant 10). Everything durable happens in this order:
 *
 * 1. `incoming.db` is whole, proven and fsynced, and its name is durable.
 * 2. `restore-intent` is durable: from here on the restore is decided, and a crash is finished by {@link finishRestore}.
 * 3. The old log, shared memory and journal go, and the kept segments, which belong to the old history: a stale log or
 *    journal beside the new file would be applied to it.
 * 4. `incoming.db` is renamed to the database, and that is durable.
 * 5. The intent goes.
 *
 * The caller has closed the cell.
 */
export function installRestored(paths: CellPaths): void {
  try {
    fsyncDirectory(paths.directory)
    writeNewFile(paths.restoreIntent, Buffer.from('switch to incoming.db\n'))
    fsyncDirectory(paths.directory)
  } catch (error) {
    try {
      withdraw(paths)
    } catch {
      // Whatever is left is seen to before the cell is opened.
    }
    throw error
  }
  // If this fails the switch is decided all the same, and finished before the cell is opened.
  keepingOld(paths.database, () => finishRestore(paths))
}

/**
 * Replaces a file, whose blocks are freed only by its last descriptor's end: of a large one that takes long, and is left
 * to another thread. Where it was not replaced it may be opened next, and no descriptor may stay (invariant 4).
 */
function keepingOld(file: string, replace: () => void): void {
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
 * Finishes a switch that was decided, and clears away one that was not. Called before a cell is opened.
 *
 * @param options.building without an intent, `incoming.db` is not left over: it is being built right now
 */
export function finishRestore(paths: CellPaths, { building = false }: { building?: boolean } = {}): void {
  if (!exists(paths.restoreIntent)) {
    if (!building && exists(paths.restoreTarget)) removeUnfinished(paths)
    return
  }
  const databaseDirectory = path.dirname(paths.database)
  // If it is gone, the crash came after the rename, and the files beside the database are its own.
  if (exists(paths.restoreTarget)) {
    for (const suffix of ['-wal', '-shm', '-journal']) fs.rmSync(paths.database + suffix, { force: true })
    fs.rmSync(paths.segments, { recursive: true, force: true })
    makeDirectory(databaseDirectory)
    fsyncDirectory(databaseDirectory)
    fs.renameSync(paths.restoreTarget, paths.database)
  }
  fsyncDirectory(databaseDirectory)
  fsyncDirectory(paths.directory)
  fs.rmSync(paths.restoreIntent)
  fsyncDirectory(paths.directory)
}

export function removeUnfinished({ restoreTarget }: CellPaths): void {
  for (const suffix of ['', '-wal', '-shm', '-journal']) fs.rmSync(restoreTarget + suffix, { force: true })
}

/** The intent goes first, for good: without its file it would still be one. */
function withdraw(paths: CellPaths): void {
  fs.rmSync(paths.restoreIntent, { force: true })
  fsyncDirectory(paths.directory)
  removeUnfinished(paths)
}
