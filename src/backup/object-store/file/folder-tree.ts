import { lstat, mkdir, open, readdir, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isError } from '../../../base/any-realm.ts'
import { DIRECTORY_MODE } from '../../../base/files/durable-files.ts'
import { CellError, type CellErrorCode } from '../../../errors.ts'
import { compareKeys } from '../object-key-rules.ts'

/** A file below a folder. Its key is its path relative to that folder. */
interface FoundFile {
  key: string
  size: number
  /** Milliseconds since the epoch. */
  modifiedMs: number
}

/**
 * Lists the regular files below `root` whose keys start with `prefix` and come after `after`, in key order. It reads only
 * folders that can hold such a key, one at a time. It leaves out links and special files.
 */
export function filesInKeyOrder(root: string, prefix: string, after = ''): AsyncGenerator<FoundFile> {
  return walk(root, prefix.slice(0, prefix.lastIndexOf('/') + 1), prefix, after)
}

/** Makes a folder and its missing parents. Each is durable in its parent. */
export async function makeFolder(folder: string, triesLeft = 3): Promise<void> {
  try {
    await mkdir(folder, { mode: DIRECTORY_MODE })
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return
    // A parent is missing, or another call has just pruned it. With a dangling link in its place this would never end.
    if (errnoOf(error) !== 'ENOENT' || triesLeft === 0) throw error
    await makeFolder(dirname(folder))
    return makeFolder(folder, triesLeft - 1)
  }
  await syncFolder(dirname(folder))
}

/** Removes a folder and its parents as far as they are empty, but never `root`. The removal is durable. */
export async function pruneFolders(folder: string, root: string): Promise<void> {
  let current = folder
  while (current !== root && current.startsWith(root)) {
    try {
      await rmdir(current)
    } catch (error) {
      // The folder holds a file. With ENOENT, another call has already removed the folder.
      if (errnoOf(error) !== 'ENOENT') break
    }
    current = dirname(current)
  }
  await ifThere(syncFolder(current))
}

/** Makes the links, renames and removals in a folder survive a power loss. */
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
      const file = await ifThere(lstat(join(root, key)))
      if (file !== undefined) yield { key, size: file.size, modifiedMs: file.mtimeMs }
    }
  }
}

/** A folder's files and folders. Folders end in `/`: then `a-b` sorts before the files in `a`, as key order demands. */
async function namesInKeyOrder(folder: string): Promise<string[]> {
  const names: string[] = []
  for (const entry of (await ifThere(readdir(folder, { withFileTypes: true }))) ?? []) {
    if (entry.isDirectory()) names.push(`${entry.name}/`)
    else if (entry.isFile()) names.push(entry.name)
  }
  return names.sort(compareKeys)
}

/** The result of `work`, or undefined if its path names nothing. */
export async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}

/** True if a path names nothing: it does not exist, or one of its parents is a file. */
export function isAbsence(error: unknown): boolean {
  const errno = errnoOf(error)
  return errno === 'ENOENT' || errno === 'ENOTDIR'
}

/** The errno of a failed file system call, or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!isError(error) || !('syscall' in error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Explains a failed file system call to users of a folder store. Neither the message nor the details hold a path. */
export function folderFailure(error: unknown): CellError {
  if (error instanceof CellError) return error
  const errno = errnoOf(error)
  const [code, what] = explain(errno)
  const message = errno === undefined ? what : `${what} (${errno})`
  return new CellError(code, `${message}.`, { cause: error })
}

function explain(errno: string | undefined): [CellErrorCode, string] {
  switch (errno) {
    case undefined:
      return ['object_store_error', 'The object store folder failed']
    case 'ENOSPC':
    case 'EDQUOT':
      return ['object_store_error', 'The object store folder has no space left']
    case 'EFBIG':
      return ['object_store_error', 'The object is larger than the file system of the object store allows']
    case 'ENAMETOOLONG':
      return [
        'object_store_error',
        'The object key is longer than the file system of the object store allows',
      ]
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return [
        'object_store_unavailable',
        'cellstore may not use the object store folder: check its owner, mode and mount',
      ]
    case 'ENOTDIR':
      return ['object_store_unavailable', 'The object store path is not a folder']
    default:
      return ['object_store_unavailable', 'The file system of the object store does not work now']
  }
}
