import fs from 'node:fs'
import path from 'node:path'
import { DIRECTORY_MODE, exists, fsyncDirectory, makeDirectory } from '../../base/files/durable-files.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'

const PREFIX = 'set-aside-'
/** Ends the folder's name until the catalog is in it. */
const UNFINISHED = '.unfinished'

/**
 * Moves what a directory holds of its store into a folder inside of it, so that a start goes on from the object store
 * alone. The catalog goes last: as long as it is here, nothing is set aside, and {@link endUnfinished} brings the rest back.
 *
 * @param now epoch milliseconds
 */
export function setAside(paths: StorePaths, now: number, log: Log): void {
  // A second try for the fence.
  if (!exists(paths.catalog)) return
  const { root } = paths
  const folder = paths.setAside(new Date(now).toISOString().replaceAll(/[-:]/g, ''))
  const unfinished = folder + UNFINISHED
  fs.mkdirSync(unfinished, { mode: DIRECTORY_MODE })
  // Before anything is in it: a folder that comes back after a power loss without its name would be another one.
  fsyncDirectory(root)
  const catalog = path.basename(paths.catalog)
  try {
    const names = fs.readdirSync(root).filter((name) => isState(name, paths) && name !== catalog)
    moveAll(names, root, unfinished)
    moveAll([catalog], root, unfinished)
  } catch (error) {
    try {
      endUnfinished(paths)
    } catch {
      // The next start does it.
    }
    throw error
  }
  endUnfinished(paths)
  log.warn(
    { folder },
    'this directory goes on from the object store; what it had before is set aside, and can be removed when nobody needs it',
  )
}

/**
 * Ends what an earlier {@link setAside} has begun: without the catalog all of it comes back, as a catalog without its log, or
 * cells without theirs, would lack what was acknowledged. Call it before anything is made in the directory.
 */
export function endUnfinished({ root, catalog }: StorePaths): void {
  const isUnfinished = (name: string) => name.startsWith(PREFIX) && name.endsWith(UNFINISHED)
  for (const name of fs.readdirSync(root).filter(isUnfinished)) {
    const folder = path.join(root, name)
    if (exists(path.join(folder, path.basename(catalog)))) {
      fs.renameSync(folder, folder.slice(0, -UNFINISHED.length))
    } else {
      moveAll(fs.readdirSync(folder), folder, root)
      fs.rmdirSync(folder)
    }
    fsyncDirectory(root)
  }
}

/** Durable when it returns. */
function moveAll(names: readonly string[], from: string, to: string): void {
  for (const name of names) fs.renameSync(path.join(from, name), path.join(to, name))
  for (const folder of [to, from]) fsyncDirectory(folder)
}

/** Whether a file is of the store's state, and not of the directory itself. */
function isState(name: string, { root, lock, workers, owner, socket, objectStore }: StorePaths): boolean {
  const ofDirectory = [lock, workers, owner, socket, objectStore].map((file) => path.relative(root, file))
  return !name.startsWith(PREFIX) && !ofDirectory.some((each) => name.startsWith(each))
}

/** Tracks the files that a start creates in its directory, so that a failed start leaves nothing behind. */
export class NewFiles {
  readonly #root: string
  /** The topmost directory that was created. */
  readonly #made: string | undefined
  readonly #before: ReadonlySet<string>

  /** Creates the directory if necessary. */
  constructor(root: string) {
    this.#root = root
    this.#made = makeDirectory(root)
    this.#before = new Set(fs.readdirSync(root))
  }

  /** For a caller that does not own the directory: removes the created directories if they are empty. */
  removeEmpty(): void {
    if (this.#made === undefined) return
    try {
      for (let at = this.#root; at.startsWith(this.#made); at = path.dirname(at)) fs.rmdirSync(at)
    } catch {
      // Another process has put files there.
    }
  }

  /** Removes everything that did not exist before. The caller must own the directory. */
  remove(): void {
    const made =
      this.#made === undefined
        ? fs.readdirSync(this.#root).filter((name) => !this.#before.has(name))
        : [this.#made]
    for (const name of made) fs.rmSync(path.resolve(this.#root, name), { recursive: true, force: true })
  }
}
