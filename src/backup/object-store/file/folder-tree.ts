import { lstat, mkdir, open, readdir, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DIRECTORY_MODE } from '../../../base/durable-files.ts'
import { compareKeys } from '../object-key-rules.ts'
import { errnoOf } from './folder-failure.ts'

/** A file below a folder; its key is the path from there. */
export interface FoundFile {
  key: string
  size: number
  /** Milliseconds since the epoch. */
  modifiedMs: number
}

/**
 * The regular files below `root` whose key starts with `prefix` and comes after `after`, in key order. Reads only the
 * folders that can hold such a key, one at a time. Links and other special files are left out.
 */
export function filesInKeyOrder(root: string, prefix: string, after = ''): AsyncGenerator<FoundFile> {
  return walk(root, prefix.slice(0, prefix.lastIndexOf('/') + 1), prefix, after)
}

/** Makes a folder and those above it that are missing, each durable in its parent. */
export async function makeFolder(folder: string, triesLeft = 3): Promise<void> {
  try {
    await mkdir(folder, { mode: DIRECTORY_MODE })
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return
    // A parent is missing, or was pruned just now; a dangling link in its place would make this go on for ever.
    if (errnoOf(error) !== 'ENOENT' || triesLeft === 0) throw error
    await makeFolder(dirname(folder))
    return makeFolder(folder, triesLeft - 1)
  }
  await syncFolder(dirname(folder))
}

/** Removes a folder that has become empty, and those above it, but never `root`; makes it durable. */
export async function pruneFolders(folder: string, root: string): Promise<void> {
  let current = folder
  while (current !== root && current.startsWith(root)) {
    try {
      await rmdir(current)
    } catch (error) {
      // Somebody else's file is in it, or somebody else was quicker.
      if (errnoOf(error) !== 'ENOENT') break
    }
    current = dirname(current)
  }
  await syncFolder(current).catch((error: unknown) => {
    if (!isAbsence(error)) throw error
  })
}

/** Makes what was linked, renamed or removed in a folder survive a power loss. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function* walk(root: string, folder: string, prefix: string, after: string): AsyncGenerator<FoundFile> {
  for (const name of await namesInKeyOrder(join(root, folder))) {
    const key = folder + name
    if (name.endsWith('/')) {
      const isPassed = compareKeys(key, after) < 0 && !after.startsWith(key)
      if (key.startsWith(prefix) && !isPassed) yield* walk(root, key, prefix, after)
    } else if (key.startsWith(prefix) && compareKeys(key, after) > 0) {
      const file = await lstatIfThere(join(root, key))
      if (file !== undefined) yield { key, size: file.size, modifiedMs: file.mtimeMs }
    }
  }
}

/** A folder's files and folders; folders end in `/`, which also puts `a-b` before what is in `a`, as key order has it. */
async function namesInKeyOrder(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    const names: string[] = []
    for (const entry of entries) {
      if (entry.isDirectory()) names.push(`${entry.name}/`)
      else if (entry.isFile()) names.push(entry.name)
    }
    return names.sort(compareKeys)
  } catch (error) {
    if (isAbsence(error)) return []
    throw error
  }
}

async function lstatIfThere(file: string) {
  try {
    return await lstat(file)
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}

/** True where a path names nothing: it is not there, or what should be a folder on the way is a file. */
export function isAbsence(error: unknown): boolean {
  const errno = errnoOf(error)
  return errno === 'ENOENT' || errno === 'ENOTDIR'
}
