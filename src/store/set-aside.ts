import fs from 'node:fs'
import path from 'node:path'
import { DIRECTORY_MODE, exists, fsyncDirectory } from '../base/durable-files.ts'
import type { Log } from '../base/log.ts'
import type { StorePaths } from '../base/store-paths.ts'

/**
 * Moves what a directory holds of its store into a folder inside of it, so that a start goes on from the object store
 * alone. The catalog goes last: as long as it is here, the next start is asked again what to do.
 *
 * @param now epoch milliseconds
 */
export function setAside(paths: StorePaths, now: number, log: Log): void {
  // A second try for the fence.
  if (!exists(paths.catalog)) return
  const target = paths.setAside(new Date(now).toISOString().replaceAll(/[-:]/g, ''))
  fs.mkdirSync(target, { mode: DIRECTORY_MODE })
  const catalog = path.basename(paths.catalog)
  const names = fs.readdirSync(paths.root).filter((name) => isState(name, paths) && name !== catalog)
  for (const name of [...names, catalog]) fs.renameSync(path.join(paths.root, name), path.join(target, name))
  for (const folder of [target, paths.root]) fsyncDirectory(folder)
  log.warn(
    { folder: target },
    'this directory goes on from the object store; what it had before is set aside, and can be removed when nobody needs it',
  )
}

/** Whether a file is of the store's state, and not of the directory itself. */
function isState(name: string, { root, lock, workers, owner, socket, objectStore }: StorePaths): boolean {
  const ofDirectory = [lock, workers, owner, socket, objectStore].map((file) => path.relative(root, file))
  return !name.startsWith('set-aside-') && !ofDirectory.some((each) => name.startsWith(each))
}
