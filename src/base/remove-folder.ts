import fs from 'node:fs/promises'
import path from 'node:path'

/**
 * Removes a folder and all that is in it, in the thread pool. Node.js's own `rm` asks for the kind of each file before it removes it, and
 * makes twice as many calls: each costs the event loop of a busy machine 50 µs.
 *
 * @throws the file system's error, except that something is gone already
 */
export async function removeFolderAside(folder: string): Promise<void> {
  for (const entry of await unlessGone(fs.readdir(folder, { withFileTypes: true }), [])) {
    const each = path.join(folder, entry.name)
    if (entry.isDirectory()) await removeFolderAside(each)
    else await unlessGone(fs.unlink(each), undefined)
  }
  await unlessGone(fs.rmdir(folder), undefined)
}

async function unlessGone<T>(removed: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await removed
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return otherwise
  }
}
